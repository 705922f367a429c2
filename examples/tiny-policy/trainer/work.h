// What one thread keeps of the sequence it works on.
#pragma once
#include "matrix.h"

typedef struct {
  float *input, *normed, *raw_query, *raw_key, *value, *query, *key, *attended, *middle, *ffn_normed, *gate, *up, *product;
  float *log_sum; // [head][t]: what turns a score into a probability again
} Layer;

enum { BLOCK = 64 }; // queries whose scores are in the cache at once

typedef struct {
  Layer layer[MAX_LAYERS];
  float *output, *normed, *picked, *logits, *d_picked;
  int *picked_at;
  float *d_stream, *d_width, *d_query, *d_key, *d_value, *d_raw, *d_gate, *d_up, *d_attended;
  float *keys_across, *values_across, *scores, *d_scores;
  float *gradients;
  double loss;
} Work;

static Work open_work(int longest) {
  Work w = {0};
  const long t = longest, padded = round_up(t, LANES);
  for (int l = 0; l < layers; l++)
    w.layer[l] = (Layer){
        .input = floats(t * width), .normed = floats(t * width), .raw_query = floats(t * query_width), .raw_key = floats(t * key_width),
        .value = floats(t * key_width), .query = floats(t * query_width), .key = floats(t * key_width), .attended = floats(t * query_width),
        .middle = floats(t * width), .ffn_normed = floats(t * width), .gate = floats(t * feed_forward), .up = floats(t * feed_forward),
        .product = floats(t * feed_forward), .log_sum = floats(heads * t)};
  w.output = floats(t * width), w.normed = floats(t * width), w.picked = floats(t * width), w.d_picked = floats(t * width);
  w.logits = floats(t * padded_vocabulary), w.picked_at = malloc(t * sizeof(int));
  w.d_stream = floats(t * width), w.d_width = floats(t * width);
  w.d_query = floats(t * query_width), w.d_attended = floats(t * query_width), w.d_key = floats(t * key_width), w.d_value = floats(t * key_width);
  w.d_raw = floats(t * (query_width > key_width ? query_width : key_width)), w.d_gate = floats(t * feed_forward), w.d_up = floats(t * feed_forward);
  w.keys_across = floats(head_width * padded), w.values_across = floats(head_width * padded);
  w.scores = floats(BLOCK * padded), w.d_scores = floats(BLOCK * padded);
  w.gradients = floats(parameter_count);
  return w;
}
