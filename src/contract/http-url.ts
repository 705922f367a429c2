// An address that is called over HTTP, as a person writes it.
import { z } from 'zod'

/** What is forgotten most often is the scheme: the error shows it. */
export const httpUrl = z.url({ protocol: /^https?$/, error: 'must be a URL like http://127.0.0.1:8000' })
