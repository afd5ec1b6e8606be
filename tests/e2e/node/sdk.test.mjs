// The OpenAI SDK and the AI SDK for Node against a running gateway: BASE_URL, MODEL.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";

const baseURL = process.env.BASE_URL;
const model = process.env.MODEL;
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Repeat exactly: one two three one two three" }];

test("chat answers with usage", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 16 });

  assert.ok(answer.choices[0].message.content);
  assert.ok(answer.usage.completion_tokens > 0);
});

test("chat streams, and usage comes last when asked", async () => {
  const stream = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 16,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);

  const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("");
  assert.ok(text);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(chunks.at(-1).usage.completion_tokens > 0);
  assert.ok(chunks.slice(0, -1).every((chunk) => !chunk.usage));
});

test("completions, logprobs, n, stop and seed", async () => {
  const answer = await client.completions.create({
    model,
    prompt: "1 2 3 4 5 6 7 1 2 3 4",
    max_tokens: 16,
    temperature: 0,
    n: 1,
    stop: ["7"],
    seed: 3,
    logprobs: 1,
  });
  const several = await client.chat.completions.create({ model, messages, max_tokens: 4, n: 2 });

  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(answer.choices[0].logprobs.token_logprobs.length > 0);
  assert.equal(several.choices.length, 2);
});

test("JSON schema output parses", async () => {
  const schema = {
    type: "object",
    properties: { answer: { type: "string", enum: ["yes", "no"] } },
    required: ["answer"],
    additionalProperties: false,
  };
  const answer = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "Is water wet? Answer in JSON." }],
    max_tokens: 40,
    temperature: 0,
    response_format: { type: "json_schema", json_schema: { name: "a", schema } },
  });

  assert.ok(["yes", "no"].includes(JSON.parse(answer.choices[0].message.content).answer));
});

test("errors are the SDK's own classes", async () => {
  await assert.rejects(
    client.chat.completions.create({ model: "gpt-99", messages }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
  );
  await assert.rejects(
    client.chat.completions.create({ model, messages, max_tokens: -1 }),
    OpenAI.BadRequestError,
  );
});

test("a stream can be aborted", async () => {
  const stream = await client.completions.create({
    model,
    prompt: "a",
    max_tokens: 2000,
    stream: true,
    ignore_eos: true,
  });
  let seen = 0;
  for await (const _ of stream) {
    seen += 1;
    if (seen === 3) break;
  }

  assert.equal(seen, 3);
});

test("the AI SDK generates and streams", async () => {
  const provider = createOpenAICompatible({ name: "specgate", baseURL, apiKey: "none" });
  const whole = await generateText({
    model: provider.chatModel(model),
    prompt: "Say hello.",
    maxOutputTokens: 12,
    maxRetries: 0,
  });
  const streamed = streamText({
    model: provider.chatModel(model),
    prompt: "Say hello.",
    maxOutputTokens: 12,
    maxRetries: 0,
  });
  let text = "";
  for await (const piece of streamed.textStream) text += piece;

  assert.ok(whole.text);
  assert.ok(text);
});

const schema = {
  type: "object",
  properties: {
    city: { type: "string", enum: ["Paris", "Rome"] },
    days: { type: "integer", enum: [1, 2] },
  },
  required: ["city", "days"],
  additionalProperties: false,
};

function checkArguments({ city, days }) {
  assert.ok(["Paris", "Rome"].includes(city));
  assert.ok([1, 2].includes(days));
}

test("a required tool's arguments follow its schema without strict", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "What is the weather in Paris?" }],
    max_tokens: 200,
    tools: [{ type: "function", function: { name: "weather", parameters: schema } }],
    tool_choice: "required",
  });

  const [call] = answer.choices[0].message.tool_calls;
  assert.equal(call.function.name, "weather");
  checkArguments(JSON.parse(call.function.arguments));
});

test("the AI SDK runs a tool, whole and streamed", async () => {
  const provider = createOpenAICompatible({ name: "specgate", baseURL, apiKey: "none" });
  const called = [];
  const weather = tool({
    description: "The weather of a city.",
    inputSchema: jsonSchema(schema),
    execute: async (input) => {
      called.push(input);
      return "Sunny.";
    },
  });
  const asking = {
    model: provider.chatModel(model),
    prompt: "What is the weather in Paris?",
    tools: { weather },
    toolChoice: "required",
    maxOutputTokens: 200,
    maxRetries: 0,
  };
  const whole = await generateText(asking);
  const streamed = streamText(asking);
  await streamed.consumeStream();

  assert.equal(whole.finishReason, "tool-calls");
  assert.equal(await streamed.finishReason, "tool-calls");
  assert.ok(whole.toolResults.length > 0);
  assert.ok((await streamed.toolResults).length > 0);
  called.forEach(checkArguments);
});

test("the AI SDK takes the result of a tool", async () => {
  const provider = createOpenAICompatible({ name: "specgate", baseURL, apiKey: "none" });
  const id = { toolCallId: "t1", toolName: "weather" };
  const { text } = await generateText({
    model: provider.chatModel(model),
    messages: [
      { role: "user", content: "What is the weather in Paris?" },
      {
        role: "assistant",
        content: [{ type: "tool-call", ...id, input: { city: "Paris", days: 1 } }],
      },
      {
        role: "tool",
        content: [{ type: "tool-result", ...id, output: { type: "text", value: "Sunny." } }],
      },
    ],
    maxOutputTokens: 16,
    maxRetries: 0,
  });

  assert.ok(text);
});

test("the AI SDK generates an object", async () => {
  const provider = createOpenAICompatible({
    name: "specgate",
    baseURL,
    apiKey: "none",
    supportsStructuredOutputs: true,
  });
  const { object } = await generateObject({
    model: provider.chatModel(model),
    schema: jsonSchema(schema),
    prompt: "A trip, in JSON.",
    maxOutputTokens: 200,
    maxRetries: 0,
  });

  checkArguments(object);
});
