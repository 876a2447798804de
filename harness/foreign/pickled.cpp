#include "harness/foreign/pickled.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsa/base/error.h"

namespace harness {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& why) {
  throw nsa::Error("pickle: " + why);
}

// A value that a later part of the file may still add to. Dictionaries hold keys and values by turns.
struct Node {
  enum class Kind { plain, list, dictionary, mark };
  Kind kind = Kind::plain;
  json plain = nullptr;
  std::vector<Node*> items = {};
};

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Node* run() {
    while (true) {
      const char code = take(1)[0];
      if (code == '.') return pop();
      step(code);
    }
  }

 private:
  std::string_view take(std::size_t count) {
    if (bytes_.size() - at_ < count) refuse("it ends too early");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  // Little-endian, as the format has it, and as the machines are that this is built for.
  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  Node* made(Node::Kind kind, json value = nullptr) {
    return &nodes_.emplace_back(Node{kind, std::move(value)});
  }
  void push(Node* node) { stack_.push_back(node); }
  void push(json value) { push(made(Node::Kind::plain, std::move(value))); }
  void push_empty(Node::Kind kind) { push(made(kind)); }

  Node* pop() {
    if (stack_.empty() || stack_.back()->kind == Node::Kind::mark) refuse("nothing on its stack");
    Node* node = stack_.back();
    stack_.pop_back();
    return node;
  }

  std::vector<Node*> pop_to_mark() {
    std::vector<Node*> items;
    while (!stack_.empty() && stack_.back()->kind != Node::Kind::mark) {
      items.push_back(stack_.back());
      stack_.pop_back();
    }
    if (stack_.empty()) refuse("a mark is missing");
    stack_.pop_back();
    std::reverse(items.begin(), items.end());
    return items;
  }

  Node* top(Node::Kind kind) {
    if (stack_.empty() || stack_.back()->kind != kind) refuse("what is added to is not there");
    return stack_.back();
  }

  void add(const std::vector<Node*>& items, Node::Kind kind) {
    Node* to = top(kind);
    if (kind == Node::Kind::dictionary && items.size() % 2 != 0) refuse("a key without a value");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  void push_tuple(std::size_t count) {
    Node* tuple = made(Node::Kind::list);
    for (std::size_t i = 0; i < count; ++i) tuple->items.push_back(pop());
    std::reverse(tuple->items.begin(), tuple->items.end());
    push(tuple);
  }

  // "LONG1": a number of bytes, then the number in two's complement.
  void push_long() {
    const std::size_t size = number<std::uint8_t>();
    if (size > sizeof(std::int64_t)) refuse("a number of more than eight bytes");
    const std::string_view digits = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    }
    const bool negative = size > 0 && (static_cast<unsigned char>(digits[size - 1]) & 0x80U) != 0;
    if (negative && size < sizeof value) value |= ~std::uint64_t{0} << (8 * size);
    push(json(static_cast<std::int64_t>(value)));
  }

  // Big-endian, unlike all else.
  void push_double() {
    std::uint64_t bits = 0;
    for (const char byte : take(sizeof bits)) bits = bits << 8 | static_cast<unsigned char>(byte);
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof value);
    push(json(value));
  }

  void remember(std::uint32_t place) {
    if (stack_.empty()) refuse("nothing to remember");
    memory_[place] = stack_.back();
  }

  void recall(std::uint32_t place) {
    const auto at = memory_.find(place);
    if (at == memory_.end()) refuse("nothing was remembered there");
    push(at->second);
  }

  void step(char code) {
    switch (code) {
      case '\x80': take(1); return;  // version
      case '\x95': take(8); return;  // size of a frame
      case '(': return push_empty(Node::Kind::mark);
      case 'N': return push(json(nullptr));
      case '\x88': return push(json(true));
      case '\x89': return push(json(false));
      case 'J': return push(json(number<std::int32_t>()));
      case 'K': return push(json(number<std::uint8_t>()));
      case 'M': return push(json(number<std::uint16_t>()));
      case '\x8a': return push_long();
      case 'G': return push_double();
      case 'X': return push(json(std::string(take(number<std::uint32_t>()))));
      case '\x8c': return push(json(std::string(take(number<std::uint8_t>()))));
      case ']': return push_empty(Node::Kind::list);
      case '}': return push_empty(Node::Kind::dictionary);
      case ')': return push_empty(Node::Kind::list);
      case 'a': return add(one(), Node::Kind::list);
      case 'e': return add(pop_to_mark(), Node::Kind::list);
      case 's': return add(two(), Node::Kind::dictionary);
      case 'u': return add(pop_to_mark(), Node::Kind::dictionary);
      case '\x85': return push_tuple(1);
      case '\x86': return push_tuple(2);
      case '\x87': return push_tuple(3);
      case 't': return push_marked_tuple();
      case 'q': return remember(number<std::uint8_t>());
      case 'r': return remember(number<std::uint32_t>());
      case '\x94': return remember(static_cast<std::uint32_t>(memory_.size()));
      case 'h': return recall(number<std::uint8_t>());
      case 'j': return recall(number<std::uint32_t>());
      default: refuse("it does more than hold data (operation " + std::to_string(code) + ")");
    }
  }

  void push_marked_tuple() {
    std::vector<Node*> items = pop_to_mark();
    push_empty(Node::Kind::list);
    stack_.back()->items = std::move(items);
  }

  std::vector<Node*> one() { return {pop()}; }

  std::vector<Node*> two() {
    Node* value = pop();
    Node* key = pop();
    return {key, value};
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::deque<Node> nodes_;  // a node may hold itself: nothing but this owns any
  std::vector<Node*> stack_;
  std::map<std::uint32_t, Node*> memory_;
};

// What is remembered may stand in many places, and in itself: the result is bounded in depth and in size.
class Writer {
 public:
  explicit Writer(std::string_view left_out) : left_out_(left_out) {}

  json written(const Node& node, int depth = 0) {
    constexpr int kDeepest = 32;
    constexpr std::int64_t kMost = 4'000'000;
    if (depth > kDeepest) refuse("it is nested too deeply");
    if (++count_ > kMost) refuse("it holds too much");
    if (node.kind == Node::Kind::plain) return node.plain;
    if (node.kind == Node::Kind::dictionary) return dictionary(node, depth);
    json list = json::array();
    for (const Node* item : node.items) list.push_back(written(*item, depth + 1));
    return list;
  }

 private:
  json dictionary(const Node& node, int depth) {
    json result = json::object();
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
      const json& key = node.items[i]->plain;
      const std::string name = key.is_string() ? key.get<std::string>() : key.dump();
      if (name != left_out_) result[name] = written(*node.items[i + 1], depth + 1);
    }
    return result;
  }

  std::string_view left_out_;
  std::int64_t count_ = 0;
};

}  // namespace

json read_pickled(std::string_view bytes, std::string_view left_out) {
  Machine machine(bytes);  // owns what is written
  return Writer(left_out).written(*machine.run());
}

}  // namespace harness
