-- The author of turns that failed checks ask for has a name that nobody on GitHub can have.
UPDATE turns SET author = 'github:checks[bot]' WHERE author = 'github:checks';
UPDATE turns SET acts_for = 'github:checks[bot]' WHERE acts_for = 'github:checks';
