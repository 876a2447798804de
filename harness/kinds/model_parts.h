// What every kind that runs the model has in common: the model of the case on its device, and what is told of it.
#pragma once

#include <memory>

#include "harness/worker/session.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"
#include "nsa/train/data.h"
#include "nsa/train/document_lengths.h"
#include "nsa/train/dropout.h"
#include "nsa/train/loss_mask.h"

namespace harness {

[[nodiscard]] torch::Device device_of(const Session& session);

// With its initial values, drawn from the case's seed; in the case's precision, on its device. Records what `auto` in its route
// took. Throws: nsa::Error.
[[nodiscard]] nsa::NsaLm make_model(Session& session, nsa::Routes& routes);
// The same with the reference behind every seam.
[[nodiscard]] nsa::NsaLm make_reference_model(const Session& session, nsa::Routes& routes);

// The tokens that the scenario trains on. Throws: nsa::Error.
[[nodiscard]] std::unique_ptr<nsa::DataSource> make_source(const Scenario& scenario);
// Which of them the loss scores.
[[nodiscard]] nsa::LossMask make_loss_mask(const Scenario& scenario);
// And what documents they are packed of.
[[nodiscard]] nsa::Documents make_documents(const Scenario& scenario);
[[nodiscard]] nsa::Dropout make_dropout(const Scenario& scenario);

// The model's forward in a precision of training: under autocast where that is what it means.
[[nodiscard]] torch::Tensor logits_of(nsa::NsaLm& model,
                                      const torch::Tensor& tokens_BS,
                                      nsa::Precision precision);

[[nodiscard]] nsa::NamedParameters named_parameters(nsa::NsaLm& model);

// The implementation of seam `optimizer` that the case's route asks for.
[[nodiscard]] std::string optimizer_of(const Session& session);

// Records the hash of a parameter after `step`; returns its values on the CPU.
torch::Tensor write_hash(Session& session,
                         std::int64_t step,
                         const std::string& name,
                         const torch::Tensor& parameter);

void write_routes(Session& session, const nsa::Routes& routes);

// Largest resident set of this process so far.
[[nodiscard]] double peak_resident_bytes();

}  // namespace harness
