// Asks a scripted model through each vendor's own library, as a stream and as a document, and prints what came.
import { GoogleGenAI } from "@google/genai";
import { Ollama } from "ollama";
import OpenAI from "openai";

const base = process.argv[2];
const prompt = "plant a tree";
const schema = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const print = (format, text, calls, usage) => console.log(JSON.stringify({ format, text, calls, usage }));

const google = new GoogleGenAI({ apiKey: "placeholder", httpOptions: { baseUrl: `${base}/gemini` } });
const asked = {
  model: "any",
  contents: prompt,
  config: { tools: [{ functionDeclarations: [{ name: "run_shell_command", parametersJsonSchema: schema }] }] },
};
{
  const answer = await google.models.generateContent(asked);
  const usage = answer.usageMetadata;
  print("gemini document", answer.candidates[0].content.parts[0].text, answer.functionCalls, usage);
  let text = "", calls = [], last;
  for await (const chunk of await google.models.generateContentStream(asked)) {
    text += chunk.candidates[0].content.parts.map((part) => part.text ?? "").join("");
    calls.push(...(chunk.functionCalls ?? []));
    last = chunk.usageMetadata;
  }
  print("gemini stream", text, calls, last);
  const counted = await google.models.countTokens({ model: "any", contents: prompt });
  print("gemini count", typeof counted.totalTokens, [], null);
}

const ollama = new Ollama({ host: `${base}/ollama` });
const chat = {
  model: "any",
  messages: [{ role: "user", content: prompt }],
  tools: [{ type: "function", function: { name: "bash", parameters: schema } }],
};
{
  const usage = (it) => ({ input: it.prompt_eval_count, output: it.eval_count, done: it.done_reason });
  const answer = await ollama.chat({ ...chat, stream: false });
  print("ollama document", answer.message.content, answer.message.tool_calls, usage(answer));
  let text = "", calls = [], last;
  for await (const part of await ollama.chat({ ...chat, stream: true })) {
    text += part.message.content;
    calls.push(...(part.message.tool_calls ?? []));
    last = part;
  }
  print("ollama stream", text, calls, usage(last));
  print("ollama models", (await ollama.list()).models[0].name, (await ollama.show({ model: "any" })).capabilities, null);
}

const openai = new OpenAI({ apiKey: "placeholder", baseURL: `${base}/openai/v1` });
const respond = { model: "any", input: prompt, tools: [{ type: "function", name: "bash", parameters: schema, strict: false }] };
{
  const answer = await openai.responses.create(respond);
  print("responses document", answer.output_text, answer.output.slice(1), answer.usage);
  // The library's own accumulator checks the order and the indices of events.
  const stream = openai.responses.stream(respond);
  let text = "", pieces = "";
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  stream.on("response.function_call_arguments.delta", (event) => (pieces += event.delta));
  const final = await stream.finalResponse();
  print("responses stream", text, [JSON.parse(pieces), ...final.output.slice(1)], final.usage);
}
{
  const request = { model: "any", messages: chat.messages, tools: chat.tools };
  const stream = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  print("chat stream", final.choices[0].message.content, final.choices[0].message.tool_calls, final.usage);
}
