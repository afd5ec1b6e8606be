// Stream a chat with Vercel's AI SDK.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const specgate = createOpenAICompatible({
  name: "specgate",
  baseURL: process.env.OPENAI_BASE_URL ?? "http://127.0.0.1:8000/v1",
  apiKey: process.env.OPENAI_API_KEY ?? "none",
  includeUsage: true,
});

const result = streamText({
  model: specgate(process.env.MODEL ?? "smollm2-135m"),
  prompt: "Name three rivers.",
  maxOutputTokens: 48,
});
for await (const text of result.textStream) process.stdout.write(text);
const usage = await result.usage;
console.log(`\n${usage.outputTokens} tokens`);
