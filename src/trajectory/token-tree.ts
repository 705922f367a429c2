// The prefixes that a session's calls share: a radix tree of token ids whose edges are views of the calls' own arrays.
import { commonPrefix } from '../tokens/prefix.ts'

export type TreeNode = {
  /** Tokens from the root to here. */
  readonly depth: number
  parent: TreeNode | null
  /** The tokens between the parent and here. */
  label: Int32Array
  readonly children: Map<number, TreeNode>
  /** Calls whose prompt ends here. */
  readonly prompts: number[]
  /** Calls whose prompt ‖ sampled ends here and may be continued. */
  readonly wholes: number[]
}

export type TokenTree = {
  readonly root: TreeNode
  /** Walks from `node` along `ids`, growing and splitting edges as needed, and answers the node where they end. */
  descend(node: TreeNode, ids: Int32Array): TreeNode
  /** Tokens looked at so far: the cost of a build, in a unit that does not depend on the machine. */
  comparedTokens(): number
}

export function openTokenTree(): TokenTree {
  const root = nodeAt(0, null, new Int32Array(0))
  let compared = 0

  function descend(from: TreeNode, ids: Int32Array): TreeNode {
    let node = from
    let at = 0
    while (at < ids.length) {
      const first = ids[at] ?? 0
      const child = node.children.get(first)
      if (child === undefined) {
        const leaf = nodeAt(node.depth + ids.length - at, node, ids.subarray(at))
        node.children.set(first, leaf)
        return leaf
      }
      const same = sharedLength(child.label, ids, at)
      compared += same
      node = same < child.label.length ? split(child, same) : child
      at += same
    }
    return node
  }

  return { root, descend, comparedTokens: () => compared }
}

/** Tokens that `label` and `ids` from `at` have in common. */
function sharedLength(label: Int32Array, ids: Int32Array, at: number): number {
  const length = Math.min(label.length, ids.length - at)
  // Calls that extend one another are often views of one array: the same memory needs no comparison.
  if (label.buffer === ids.buffer && label.byteOffset === ids.byteOffset + at * Int32Array.BYTES_PER_ELEMENT) return length
  return commonPrefix(label, 0, ids, at, length)
}

function split(child: TreeNode, at: number): TreeNode {
  const middle = nodeAt(child.depth - child.label.length + at, child.parent, child.label.subarray(0, at))
  child.parent?.children.set(child.label[0] ?? 0, middle)
  child.label = child.label.subarray(at)
  child.parent = middle
  middle.children.set(child.label[0] ?? 0, child)
  return middle
}

function nodeAt(depth: number, parent: TreeNode | null, label: Int32Array): TreeNode {
  return { depth, parent, label, children: new Map(), prompts: [], wholes: [] }
}
