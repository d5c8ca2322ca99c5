# Turns a title into a name for a file.
echo "$*" | tr '[:upper:] ' '[:lower:]-'
