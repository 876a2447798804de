// Lines both ways over a connected socket. Nothing in it waits: what cannot be sent yet is kept, and a line that comes is of
// bounded length. Once the connection has ended, or was given up, it stays closed and says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/line_reader.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

class Link {
 public:
  // `socket`: connected, and not blocking.
  Link(Fd socket, std::size_t max_line_bytes);

  void allow_lines_of(std::size_t max_bytes);  // from the next line on
  void add_to(std::vector<pollfd>& waited) const;
  void send(std::string_view line);  // without its newline; lost where the link is closed
  void flush();
  // Gives each line that has come, whole ones only: one that is too long, or ends with the connection, closes the link.
  void read(const std::function<void(std::string_view line)>& on_line);
  void close(const std::string& why);

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] const std::string& why_closed() const { return why_closed_; }
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_.size(); }
  [[nodiscard]] std::int64_t silent_ms() const;      // since something came
  [[nodiscard]] std::int64_t since_sent_ms() const;  // since something was to be sent
  [[nodiscard]] std::string own_address() const;     // of this end, in numbers
  [[nodiscard]] std::string other_address() const;

 private:
  Fd socket_;
  LineReader lines_;
  std::string unsent_;
  std::string why_closed_;
  std::int64_t heard_ms_;
  std::int64_t sent_ms_;
};

// Throws: nsa::Error, also where no connection is made within `deadline_ms`. `address`: IPv4 in numbers.
[[nodiscard]] Fd connect_to(const std::string& address, int port, std::int64_t deadline_ms);

}  // namespace harness
