// One sequence through the model and back: its loss, and its gradients added to the thread's.
#pragma once
#include "attention.h"
#include "norm.h"

static void forward(Work *w, const int *ids, int t) {
  for (int i = 0; i < t; i++) memcpy(w->layer[0].input + (long)i * width, weights_of(EMBEDDING) + (long)ids[i] * width, width * sizeof(float));
  for (int l = 0; l < layers; l++) {
    Layer *a = &w->layer[l];
    float *next = l + 1 < layers ? w->layer[l + 1].input : w->output;
    normalise(a->normed, a->input, weights_of(tensor_of(l, ATTENTION_NORM)), t, width);
    project(a->raw_query, a->normed, tensor_of(l, QUERY), t, width, query_width);
    project(a->raw_key, a->normed, tensor_of(l, KEY), t, width, key_width);
    project(a->value, a->normed, tensor_of(l, VALUE), t, width, key_width);
    normalise(a->query, a->raw_query, weights_of(tensor_of(l, QUERY_NORM)), (long)t * heads, head_width);
    normalise(a->key, a->raw_key, weights_of(tensor_of(l, KEY_NORM)), (long)t * key_heads, head_width);
    rotate(a->query, t, heads, 1);
    rotate(a->key, t, key_heads, 1);
    attend(w, a, t);
    project(a->middle, a->attended, tensor_of(l, ATTENTION_OUTPUT), t, query_width, width);
    for (long i = 0; i < (long)t * width; i++) a->middle[i] += a->input[i];
    normalise(a->ffn_normed, a->middle, weights_of(tensor_of(l, FFN_NORM)), t, width);
    project(a->gate, a->ffn_normed, tensor_of(l, GATE), t, width, feed_forward);
    project(a->up, a->ffn_normed, tensor_of(l, UP), t, width, feed_forward);
    for (long i = 0; i < (long)t * feed_forward; i++) a->product[i] = a->gate[i] / (1 + expf(-a->gate[i])) * a->up[i];
    project(next, a->product, tensor_of(l, DOWN), t, feed_forward, width);
    for (long i = 0; i < (long)t * width; i++) next[i] += a->middle[i];
  }
  normalise(w->normed, w->output, weights_of(OUTPUT_NORM), t, width);
}

// The loss of the weighted positions, divided by `divisor`; leaves d(loss)/d(normed output) in d_width.
static void predict(Work *w, const int *ids, const float *weights, int t, float divisor) {
  int count = 0;
  for (int i = 0; i + 1 < t; i++)
    if (weights[i + 1] != 0) {
      memcpy(w->picked + (long)count * width, w->normed + (long)i * width, width * sizeof(float));
      w->picked_at[count++] = i;
    }
  clear(w->logits, (long)count * padded_vocabulary);
  add_product(count, padded_vocabulary, width, w->picked, width, 1, transposed[EMBEDDING], padded_vocabulary, w->logits, padded_vocabulary);
  for (int c = 0; c < count; c++) {
    float *row = w->logits + (long)c * padded_vocabulary, highest = row[0], sum = 0;
    const int target = ids[w->picked_at[c] + 1];
    const float weight = weights[w->picked_at[c] + 1];
    for (int i = 1; i < vocabulary; i++) highest = row[i] > highest ? row[i] : highest;
    const float target_logit = row[target] - highest;
    for (int i = 0; i < vocabulary; i++) row[i] = expf(row[i] - highest), sum += row[i];
    w->loss -= weight * (target_logit - logf(sum)) / divisor;
    for (int i = 0; i < vocabulary; i++) row[i] *= weight / sum / divisor;
    row[target] -= weight / divisor;
  }
  clear(w->d_picked, (long)count * width);
  add_product(count, width, vocabulary, w->logits, padded_vocabulary, 1, weights_of(EMBEDDING), width, w->d_picked, width);
  add_product(vocabulary, width, count, w->logits, 1, padded_vocabulary, w->picked, width, w->gradients + tensors[EMBEDDING].offset, width);
  clear(w->d_width, (long)t * width);
  for (int c = 0; c < count; c++)
    memcpy(w->d_width + (long)w->picked_at[c] * width, w->d_picked + (long)c * width, width * sizeof(float));
}

static void backward(Work *w, const int *ids, int t) {
  float *const g = w->gradients;
#define GRADIENT(tensor) (g + tensors[tensor].offset)
  clear(w->d_stream, (long)t * width);
  normalise_back(w->d_stream, GRADIENT(OUTPUT_NORM), w->d_width, w->output, weights_of(OUTPUT_NORM), t, width);
  for (int l = layers - 1; l >= 0; l--) {
    const Layer *a = &w->layer[l];
    clear(w->d_gate, (long)t * feed_forward);
    project_back(w->d_gate, g, w->d_stream, a->product, tensor_of(l, DOWN), t, feed_forward, width);
    for (long i = 0; i < (long)t * feed_forward; i++) {
      const float gate = a->gate[i], sigmoid = 1 / (1 + expf(-gate)), d = w->d_gate[i];
      w->d_up[i] = d * gate * sigmoid;
      w->d_gate[i] = d * a->up[i] * sigmoid * (1 + gate * (1 - sigmoid));
    }
    clear(w->d_width, (long)t * width);
    project_back(w->d_width, g, w->d_gate, a->ffn_normed, tensor_of(l, GATE), t, width, feed_forward);
    project_back(w->d_width, g, w->d_up, a->ffn_normed, tensor_of(l, UP), t, width, feed_forward);
    normalise_back(w->d_stream, GRADIENT(tensor_of(l, FFN_NORM)), w->d_width, a->middle, weights_of(tensor_of(l, FFN_NORM)), t, width);

    clear(w->d_attended, (long)t * query_width);
    project_back(w->d_attended, g, w->d_stream, a->attended, tensor_of(l, ATTENTION_OUTPUT), t, query_width, width);
    attend_back(w, a, t);
    rotate(w->d_query, t, heads, -1);
    rotate(w->d_key, t, key_heads, -1);
    clear(w->d_width, (long)t * width);
    clear(w->d_raw, (long)t * query_width);
    normalise_back(w->d_raw, GRADIENT(tensor_of(l, QUERY_NORM)), w->d_query, a->raw_query, weights_of(tensor_of(l, QUERY_NORM)),
                   (long)t * heads, head_width);
    project_back(w->d_width, g, w->d_raw, a->normed, tensor_of(l, QUERY), t, width, query_width);
    clear(w->d_raw, (long)t * key_width);
    normalise_back(w->d_raw, GRADIENT(tensor_of(l, KEY_NORM)), w->d_key, a->raw_key, weights_of(tensor_of(l, KEY_NORM)),
                   (long)t * key_heads, head_width);
    project_back(w->d_width, g, w->d_raw, a->normed, tensor_of(l, KEY), t, width, key_width);
    project_back(w->d_width, g, w->d_value, a->normed, tensor_of(l, VALUE), t, width, key_width);
    normalise_back(w->d_stream, GRADIENT(tensor_of(l, ATTENTION_NORM)), w->d_width, a->input, weights_of(tensor_of(l, ATTENTION_NORM)), t,
                   width);
  }
  for (int i = 0; i < t; i++)
    for (int j = 0; j < width; j++) GRADIENT(EMBEDDING)[(long)ids[i] * width + j] += w->d_stream[(long)i * width + j];
#undef GRADIENT
}
