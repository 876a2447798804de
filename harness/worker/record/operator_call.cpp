#include "harness/worker/record/operator_call.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include <ATen/core/dispatch/Dispatcher.h>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostArguments = 64;
constexpr nsa::JsonLimits kCallLimits = {std::size_t{64} << 10, 8};
constexpr const char* kOperatorKey = "operator";

struct TypeName {
  torch::ScalarType type;
  nsa::DType dtype;
};
constexpr std::array kTypes = {TypeName{torch::kDouble, nsa::DType::f64},
                               TypeName{torch::kFloat, nsa::DType::f32},
                               TypeName{torch::kHalf, nsa::DType::f16},
                               TypeName{torch::kBFloat16, nsa::DType::bf16},
                               TypeName{torch::kLong, nsa::DType::i64},
                               TypeName{torch::kInt, nsa::DType::i32},
                               TypeName{torch::kByte, nsa::DType::u8},
                               TypeName{torch::kBool, nsa::DType::boolean}};

std::optional<nsa::DType> dtype_of(const Tensor& tensor) {
  for (const TypeName& one : kTypes) {
    if (one.type == tensor.scalar_type()) return one.dtype;
  }
  return std::nullopt;
}

torch::ScalarType type_of(nsa::DType dtype) {
  for (const TypeName& one : kTypes) {
    if (one.dtype == dtype) return one.type;
  }
  throw nsa::Error("no such type of tensors");
}

// ---- writing -------------------------------------------------------------------------------------

class CallWriter {
 public:
  // False where it holds what cannot be written.
  bool take(const OperatorCall& call) {
    says_ = {{"name", call.name}, {"overload", call.overload}, {"arguments", json::array()}};
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      std::optional<json> said = said_of(call.arguments[i], std::to_string(i));
      if (!said) return false;
      says_["arguments"].push_back(*std::move(said));
    }
    return true;
  }

  void write(const std::string& path) const {
    std::vector<nsa::TensorToWrite> list;
    for (const auto& [name, tensor] : tensors_) {
      list.push_back({name, *dtype_of(tensor), tensor.sizes().vec(), bytes_of(tensor)});
    }
    nsa::write_safetensors(path, list, {{kOperatorKey, says_.dump()}});
  }

 private:
  std::optional<json> said_of(const c10::IValue& value, const std::string& name) {
    if (value.isNone()) return json(nullptr);
    if (value.isBool()) return json{{"bool", value.toBool()}};
    if (value.isInt()) return json{{"int", value.toInt()}};
    if (value.isDouble()) return json{{"real", Real(value.toDouble())}};
    if (value.isDevice()) return json{{"device", true}};
    if (value.isIntList()) return json{{"ints", value.toIntVector()}};
    if (value.isTensor()) return said_of_tensor(value.toTensor(), name);
    if (!value.isTensorList()) return std::nullopt;
    json names = json::array();
    const std::vector<Tensor> all = value.toTensorVector();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string of_item = name + "." + std::to_string(i);
      const auto said = said_of_tensor(all[i], of_item);
      if (!said || !said->contains("tensor")) return std::nullopt;
      names.push_back(of_item);
    }
    return json{{"tensors", names}};
  }

  std::optional<json> said_of_tensor(const Tensor& tensor, const std::string& name) {
    if (!tensor.defined()) return json{{"undefined", true}};
    if (tensor.layout() != torch::kStrided || !dtype_of(tensor)) return std::nullopt;
    bytes_ += tensor.nbytes();
    if (bytes_ > kMostBytes) return std::nullopt;
    tensors_.emplace_back(name, tensor.detach().cpu().contiguous());
    json said = {{"tensor", name}};
    if (tensor.is_cuda()) said["card"] = true;
    return said;
  }

  json says_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::size_t bytes_ = 0;
};

// ---- reading -------------------------------------------------------------------------------------

class CallReader {
 public:
  explicit CallReader(const std::string& path) : path_(path), file_(path) {}

  OperatorCall read() {
    const auto said = file_.metadata().find(kOperatorKey);
    if (said == file_.metadata().end()) {
      throw nsa::Error(path_ + ": found no metadata \"operator\", wanted a call of an operator");
    }
    const json says = nsa::parse_json_object(said->second, kCallLimits, path_ + ": operator");
    OperatorCall call{
        says.at("name").get<std::string>(), says.at("overload").get<std::string>(), {}};
    const json& arguments = says.at("arguments");
    if (!arguments.is_array() || arguments.size() > kMostArguments) {
      throw nsa::Error(path_ + ": arguments: wanted a list of at most " +
                       std::to_string(kMostArguments));
    }
    for (const json& argument : arguments) call.arguments.push_back(value_of(argument));
    return call;
  }

 private:
  c10::IValue value_of(const json& said) {
    if (said.is_null()) return {};
    if (said.contains("bool")) return said.at("bool").get<bool>();
    if (said.contains("int")) return said.at("int").get<std::int64_t>();
    if (said.contains("real")) return static_cast<double>(said.at("real").get<Real>());
    if (said.contains("ints")) return said.at("ints").get<std::vector<std::int64_t>>();
    if (said.contains("device")) return torch::Device(torch::kCPU);
    if (said.contains("undefined")) return Tensor();
    if (said.contains("tensor")) return tensor_named(said.at("tensor").get<std::string>());
    std::vector<Tensor> all;
    for (const json& name : said.at("tensors"))
      all.push_back(tensor_named(name.get<std::string>()));
    return all;
  }

  Tensor tensor_named(const std::string& name) {
    const nsa::TensorView& view = file_.at(name);
    Tensor tensor = torch::empty(view.shape, torch::dtype(type_of(view.dtype)));
    if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    return tensor;
  }

  std::string path_;
  nsa::SafetensorsFile file_;
};

// ---- fewer rows ----------------------------------------------------------------------------------

// The first output with a NaN in it.
Tensor output_with_nan(const OperatorCall& call) {
  try {
    for (const Tensor& output : run_call(call)) {
      if (count_nan({output}) > 0) return output;
    }
  } catch (const std::exception&) {  // these rows alone cannot be given to it
  }
  return {};
}

// Each tensor that is as long as the output along an axis, at one place of it.
OperatorCall narrowed(const OperatorCall& call,
                      const Tensor& output,
                      std::int64_t axis,
                      std::int64_t at) {
  OperatorCall one = call;
  for (c10::IValue& argument : one.arguments) {
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    const Tensor& tensor = argument.toTensor();
    if (tensor.dim() != output.dim() || tensor.size(axis) != output.size(axis)) continue;
    argument = tensor.narrow(axis, at, 1).contiguous();
  }
  return one;
}

}  // namespace

std::vector<Tensor> run_call(const OperatorCall& call) {
  const torch::NoGradGuard no_graph;
  const auto found = c10::Dispatcher::singleton().findSchema({call.name, call.overload});
  if (!found) throw nsa::Error("operator " + call.name + ": this LibTorch has none of this name");
  const c10::FunctionSchema& schema = found->schema();
  if (schema.arguments().size() != call.arguments.size()) {
    throw nsa::Error("operator " + call.name + ": found " + std::to_string(call.arguments.size()) +
                     " arguments, wanted " + std::to_string(schema.arguments().size()));
  }
  for (const c10::Argument& argument : schema.arguments()) {
    const bool text = argument.type()->repr_str().find("str") != std::string::npos;
    if (text) throw nsa::Error("operator " + call.name + ": it takes text, which is refused");
  }
  torch::jit::Stack stack;
  for (const c10::IValue& argument : call.arguments) {
    // What writes into its arguments shall not spoil the next run.
    stack.push_back(argument.isTensor() && argument.toTensor().defined()
                        ? c10::IValue(argument.toTensor().clone())
                        : argument);
  }
  schema.checkAndNormalizeInputs(stack);
  found->callBoxed(stack);
  std::vector<Tensor> outputs;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) outputs.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const Tensor& tensor : value.toTensorVector()) outputs.push_back(tensor);
  }
  return outputs;
}

std::int64_t count_nan(const std::vector<Tensor>& outputs) {
  std::int64_t count = 0;
  for (const Tensor& output : outputs) {
    if (output.defined() && output.is_floating_point()) {
      count += output.isnan().sum().item<std::int64_t>();
    }
  }
  return count;
}

OperatorCall fewer_rows(OperatorCall call) {
  Tensor output = output_with_nan(call);
  if (!output.defined()) return call;
  for (std::int64_t axis = 0; axis < output.dim(); ++axis) {
    if (output.size(axis) < 2) continue;
    std::int64_t place = output.isnan().flatten().to(torch::kInt).argmax().item<std::int64_t>();
    for (std::int64_t later = output.dim() - 1; later > axis; --later) place /= output.size(later);
    OperatorCall one = narrowed(call, output, axis, place % output.size(axis));
    Tensor of_one = output_with_nan(one);
    if (!of_one.defined() || of_one.dim() != output.dim()) continue;
    call = std::move(one);
    output = std::move(of_one);
  }
  return call;
}

bool write_call(const ArtefactOut& out, const ArtefactId& id, const OperatorCall& call) {
  CallWriter writer;
  if (!writer.take(call)) return false;
  const std::string path = out.root + "/" + out.path_of(id);
  writer.write(path);
  Artefact file;
  file.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  file.hash = nsa::hash_file(path);
  out.tell(id, file);
  return true;
}

OperatorCall read_call(const std::string& path) {
  try {
    return CallReader(path).read();
  } catch (const json::exception& error) {
    throw nsa::Error(path + ": operator: " + nsa::shortened(error.what()));
  }
}

void run_operator_file(const std::string& path) {
  const OperatorCall call = read_call(path);
  const std::vector<Tensor> outputs = run_call(call);
  json shapes = json::array();
  std::int64_t numbers = 0;
  for (const Tensor& output : outputs) {
    shapes.push_back(output.sizes().vec());
    numbers += output.numel();
  }
  const json said = {{"operator", call.name},
                     {"outputs", std::move(shapes)},
                     {"numbers", numbers},
                     {"nan", count_nan(outputs)}};
  std::cout << said.dump() << "\n";
}

}  // namespace harness
