// Failures of chat completions: OpenAI's envelope, and nothing of their own.
export { writeOpenaiFailure as writeChatFailure } from '../openai-failure.ts'
