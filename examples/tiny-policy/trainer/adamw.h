// One step of AdamW over the gradients of a batch.
#pragma once
#include <math.h>
#include "model.h"

static float *first_moment, *second_moment;

static void update(float *gradients, int step, int steps, float peak_rate) {
  const float keep_first = 0.9f, keep_second = 0.98f, decay = 0.01f, longest = 1;
  const int warm_up = steps < 200 ? steps / 10 + 1 : 20;
  const float progress = step < warm_up ? 0 : (float)(step - warm_up) / (steps - warm_up + 1);
  const float rate = peak_rate * (step < warm_up ? (float)step / warm_up : 0.02f + 0.98f * 0.5f * (1 + cosf(M_PI * progress)));
  const float first_bias = 1 - powf(keep_first, step), second_bias = 1 - powf(keep_second, step);
  double square = 0;
#pragma omp parallel for reduction(+ : square)
  for (long i = 0; i < parameter_count; i++) square += (double)gradients[i] * gradients[i];
  const float clip = square > longest * longest ? longest / sqrt(square) : 1;
  for (int n = 0; n < tensor_count; n++) {
    const long from = tensors[n].offset, to = from + tensors[n].length;
    const float shrink = tensors[n].decays ? 1 - rate * decay : 1;
#pragma omp parallel for
    for (long i = from; i < to; i++) {
      const float gradient = gradients[i] * clip;
      first_moment[i] = keep_first * first_moment[i] + (1 - keep_first) * gradient;
      second_moment[i] = keep_second * second_moment[i] + (1 - keep_second) * gradient * gradient;
      parameters[i] = parameters[i] * shrink - rate * (first_moment[i] / first_bias) / (sqrtf(second_moment[i] / second_bias) + 1e-8f);
    }
  }
}
