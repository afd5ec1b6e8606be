// The OpenAI SDK and the AI SDK for Node against a running gateway: BASE_URL, MODEL.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
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
