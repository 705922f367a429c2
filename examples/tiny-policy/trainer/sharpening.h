// After training: makes the model as sure of its tokens as the loss allows.
#pragma once
#include <omp.h>
#include "files.h"
#include "network.h"

// On so many sequences. The tail of thousands of improbable tokens costs next to no loss, yet a long answer meets it: the steps of the
// optimiser are too coarse to press it down, one factor on all logits is not.
enum { JUDGED = 16 };

static double judged_loss(Work *work, int threads, const Sequence *sequences, int count) {
  double loss = 0;
  for (int i = 0; i < threads; i++) work[i].loss = 0;
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < count; i++) {
    Work *w = &work[omp_get_thread_num()];
    forward(w, sequences[i].ids, sequences[i].length);
    predict(w, sequences[i].ids, sequences[i].weights, sequences[i].length, 1);
  }
  for (int i = 0; i < threads; i++) loss += work[i].loss;
  return loss;
}

// The gains of the output norm grow as long as the loss is no higher than it was. The sequences are in no order.
static void sharpen(Work *work, int threads, const Sequence *sequences, int count) {
  const float growth = 1.05f, most = 2;
  const int judged = count < JUDGED ? count : JUDGED;
  float *const gains = weights_of(OUTPUT_NORM);
  transpose_all();
  const double before = judged_loss(work, threads, sequences, judged);
  for (float factor = growth; factor < most; factor *= growth) {
    for (int i = 0; i < width; i++) gains[i] *= growth;
    if (judged_loss(work, threads, sequences, judged) <= before) continue;
    for (int i = 0; i < width; i++) gains[i] /= growth;
    return;
  }
}
