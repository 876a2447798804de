// One call of one operator of LibTorch with all that it was given, in a file that runs it again: what is left of a case in which a
// number that is not finite was born. A safetensors file; its tensors are the arguments', and its metadata `operator` says the
// rest.
// Files are untrusted: operators that take text are refused, since text names files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/worker/record/artefact_out.h"
#include "nsa/torch.h"

namespace harness {

struct OperatorCall {
  std::string name;      // "aten::_softmax"
  std::string overload;  // "" or "int"
  std::vector<c10::IValue> arguments;
};

// What it gives, without a graph. Throws: nsa::Error (no such operator, other arguments), and what the operator throws.
[[nodiscard]] std::vector<torch::Tensor> run_call(const OperatorCall& call);

// How many numbers of it are NaN.
[[nodiscard]] std::int64_t count_nan(const std::vector<torch::Tensor>& outputs);

// The same call on fewer rows, as few as still give NaN; as it is where it gives none.
[[nodiscard]] OperatorCall fewer_rows(OperatorCall call);

inline constexpr const char* kOperatorFile = "nan_operator";

// Writes kOperatorFile; false where the call cannot be written: an argument of another kind, or more than a MiB.
bool write_call(const ArtefactOut& out, const ArtefactId& id, const OperatorCall& call);
// Throws: nsa::Error, of a file that is none.
[[nodiscard]] OperatorCall read_call(const std::string& path);

// The worker's entry `--operator FILE`: runs it and prints one JSON object: operator, shapes, numbers, NaN.
void run_operator_file(const std::string& path);

}  // namespace harness
