// The model as the trainer sees it: its shape, where its weights lie, and memory for what is computed from them.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 16, HEAD_TENSORS = 2, LAYER_TENSORS = 11, MAX_TENSORS = HEAD_TENSORS + MAX_LAYERS * LAYER_TENSORS };
enum { EMBEDDING, OUTPUT_NORM };
enum { ATTENTION_NORM, QUERY, KEY, VALUE, ATTENTION_OUTPUT, QUERY_NORM, KEY_NORM, FFN_NORM, GATE, UP, DOWN };

static int vocabulary, width, layers, heads, key_heads, head_width, feed_forward;
static double rope_base, epsilon;
static int query_width, key_width, padded_vocabulary;

typedef struct {
  long offset, length; // in floats, from the first tensor
  int decays;
} Tensor;

static Tensor tensors[MAX_TENSORS];
static int tensor_count;
static long parameter_count; // with the file's padding between tensors, whose gradients stay 0
static float *parameters;

static int tensor_of(int layer, int which) { return HEAD_TENSORS + layer * LAYER_TENSORS + which; }
static float *weights_of(int tensor) { return parameters + tensors[tensor].offset; }

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static float *floats(long count) {
  float *memory = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  if (!memory) fail("memory");
  memset(memory, 0, count * sizeof(float));
  return memory;
}

static void clear(float *values, long count) { memset(values, 0, count * sizeof(float)); }

static long round_up(long value, long step) { return (value + step - 1) / step * step; }
