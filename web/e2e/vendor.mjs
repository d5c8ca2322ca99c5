// A vendor of models on loopback: Anthropic's Messages, streamed, for whoever has the key.
import { createServer } from "node:http";

/** Replies in this order to every conversation: `shell` is a call of the agent's shell, `say` a text. */
export async function vendor(key, replies) {
  const server = createServer(async (request, answer) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    if (request.headers["x-api-key"] !== key) {
      answer.writeHead(401, { "content-type": "application/json" });
      answer.end(JSON.stringify({ type: "error", error: { type: "authentication_error", message: "invalid x-api-key" } }));
      return;
    }
    if (request.method !== "POST") {
      answer.writeHead(200, { "content-type": "application/json" });
      answer.end(JSON.stringify({ data: [], has_more: false, first_id: null, last_id: null }));
      return;
    }
    const asked = JSON.parse(Buffer.concat(pieces).toString());
    const said = asked.messages.filter((message) => message.role === "assistant").length;
    answer.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of stream(asked.model, said, replies[Math.min(said, replies.length - 1)])) {
      answer.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    answer.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((resolve) => server.close(resolve)) };
}

function stream(model, number, { say, shell }) {
  const usage = { input_tokens: 1200, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
  const message = { id: `msg_${number}`, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null, usage };
  const [block, delta] = shell
    ? [
        { type: "tool_use", id: `toolu_${number}`, name: "bash", input: {} },
        { type: "input_json_delta", partial_json: JSON.stringify({ command: shell }) },
      ]
    : [
        { type: "text", text: "" },
        { type: "text_delta", text: say },
      ];
  return [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: shell ? "tool_use" : "end_turn", stop_sequence: null }, usage: { output_tokens: 40 } },
    { type: "message_stop" },
  ];
}
