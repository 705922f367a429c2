// Attention, a block of queries at a time. Probabilities are computed again on the way back instead of kept.
#pragma once
#include <math.h>
#include "work.h"

// scores[rows][keys padded] of the queries from `first` on, scaled; keys after the query are left to the caller.
static void score_block(Work *w, const Layer *a, int head, int first, int rows, int keys, long padded) {
  for (int r = 0; r < rows; r++) clear(w->scores + r * padded, round_up(keys, LANES));
  add_product(rows, round_up(keys, LANES), head_width, a->query + (long)first * query_width + head * head_width, query_width, 1, w->keys_across,
              padded, w->scores, padded);
  const float scale = 1 / sqrtf(head_width);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < keys; j++) w->scores[r * padded + j] *= scale;
}

static void attend(Work *w, Layer *a, int t) {
  const long padded = round_up(t, LANES);
  clear(a->attended, (long)t * query_width);
  for (int head = 0; head < heads; head++) {
    const int shared = head / (heads / key_heads);
    if (head % (heads / key_heads) == 0) transpose(w->keys_across, padded, a->key + shared * head_width, key_width, t, head_width);
    for (int first = 0; first < t; first += BLOCK) {
      const int rows = t - first < BLOCK ? t - first : BLOCK, keys = first + rows;
      score_block(w, a, head, first, rows, keys, padded);
      for (int r = 0; r < rows; r++) {
        float *row = w->scores + r * padded, highest = row[0], sum = 0;
        const int seen = first + r + 1;
        for (int j = 1; j < seen; j++) highest = row[j] > highest ? row[j] : highest;
        for (int j = 0; j < seen; j++) row[j] = expf(row[j] - highest), sum += row[j];
        for (int j = 0; j < seen; j++) row[j] /= sum;
        for (int j = seen; j < keys; j++) row[j] = 0;
        a->log_sum[(long)head * t + first + r] = highest + logf(sum);
      }
      add_product(rows, head_width, keys, w->scores, padded, 1, a->value + shared * head_width, key_width,
                  a->attended + (long)first * query_width + head * head_width, query_width);
    }
  }
}

// d_query, d_key and d_value of what was attended, from d_attended.
static void attend_back(Work *w, const Layer *a, int t) {
  const long padded = round_up(t, LANES);
  const float scale = 1 / sqrtf(head_width);
  clear(w->d_query, (long)t * query_width), clear(w->d_key, (long)t * key_width), clear(w->d_value, (long)t * key_width);
  for (int head = 0; head < heads; head++) {
    const int shared = head / (heads / key_heads);
    if (head % (heads / key_heads) == 0) {
      transpose(w->keys_across, padded, a->key + shared * head_width, key_width, t, head_width);
      transpose(w->values_across, padded, a->value + shared * head_width, key_width, t, head_width);
    }
    for (int first = 0; first < t; first += BLOCK) {
      const int rows = t - first < BLOCK ? t - first : BLOCK, keys = first + rows;
      const float *d_out = w->d_attended + (long)first * query_width + head * head_width;
      score_block(w, a, head, first, rows, keys, padded);
      for (int r = 0; r < rows; r++) clear(w->d_scores + r * padded, round_up(keys, LANES));
      add_product(rows, round_up(keys, LANES), head_width, d_out, query_width, 1, w->values_across, padded, w->d_scores, padded);
      for (int r = 0; r < rows; r++) {
        float *row = w->scores + r * padded, *d_row = w->d_scores + r * padded, dot = 0;
        const int seen = first + r + 1;
        const float log_sum = a->log_sum[(long)head * t + first + r];
        for (int j = 0; j < seen; j++) row[j] = expf(row[j] - log_sum), dot += row[j] * d_row[j];
        for (int j = 0; j < seen; j++) d_row[j] = row[j] * (d_row[j] - dot) * scale;
        for (int j = seen; j < keys; j++) row[j] = d_row[j] = 0;
      }
      add_product(rows, head_width, keys, w->d_scores, padded, 1, a->key + shared * head_width, key_width,
                  w->d_query + (long)first * query_width + head * head_width, query_width);
      add_product(keys, head_width, rows, w->d_scores, 1, padded, a->query + (long)first * query_width + head * head_width, query_width,
                  w->d_key + shared * head_width, key_width);
      add_product(keys, head_width, rows, w->scores, 1, padded, d_out, query_width, w->d_value + shared * head_width, key_width);
    }
  }
}
