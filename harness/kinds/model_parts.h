// What every kind that runs the model has in common: the model of the case on its device, and what is told of it.
#pragma once

#include <torch/torch.h>

#include "harness/worker/session.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/data_parallel.h"

namespace harness {

[[nodiscard]] torch::Device device_of(const Session& session);

// With its initial values, drawn from the case's seed; in the case's precision, on its device. Throws: nsa::Error.
[[nodiscard]] nsa::NsaLm make_model(const Session& session, nsa::Routes& routes);
// The same with the reference behind every seam.
[[nodiscard]] nsa::NsaLm make_reference_model(const Session& session, nsa::Routes& routes);

[[nodiscard]] nsa::NamedParameters named_parameters(nsa::NsaLm& model);

void write_routes(Session& session, const nsa::Routes& routes);

// Largest resident set of this process so far.
[[nodiscard]] double peak_resident_bytes();

}  // namespace harness
