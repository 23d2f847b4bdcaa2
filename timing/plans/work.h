// Operations of a model's step, for its bounds.
#pragma once

#include "timing/plans/problem.h"

namespace dtc::plans {

inline double real(int64_t number) { return static_cast<double>(number); }

/// Products whose result the next layer reads, or whose gradient: not more than model flops say. These count rotary
/// embedding three times, which is computed twice and is no product: 9 operations an element of queries and keys,
/// beside 6 h for the products that give them, so at most 1.5 / (h + 1.5) of all. A model that multiplies its inputs
/// themselves, and no embedding, needs no gradient of them: two of three products are sure.
double productFlops(const ModelFacts &model);

double headElements(const ModelFacts &model);

/// Elements behind the embedding that multiply every token: those of layers, and the head, tied or not.
double multipliers(const ModelFacts &model);

/// What model flops leave when every parameter multiplies every token is attention.
double attentionFlops(const ModelFacts &model);

/// Of the products of all layers with their weights: 6 for each element of a matrix and each token. Norms and biases
/// are less than 4 / h of a layer: there are at most a dozen vectors of h elements or of a matrix's width, and matrices
/// of 2 h² elements or more. 0 where the layers of the model are not so.
double layerFlops(const ModelFacts &model);

} // namespace dtc::plans
