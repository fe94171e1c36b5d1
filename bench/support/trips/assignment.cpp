#include "assignment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../system/numbers.hpp"
#include "../system/posix.hpp"

namespace gantry::bench {
namespace {

template <class Number>
std::string text_of(const std::vector<Number>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

/// Reads words one after the other, and remembers whether all were numbers that had to be.
class Words {
 public:
  explicit Words(std::span<const char* const> words) : words_(words) {}

  std::string text() {
    if (at_ < words_.size()) return words_[at_++];
    is_right_ = false;
    return {};
  }
  template <class Number>
  Number number() {
    return parse<Number>(text());
  }
  template <class Number>
  std::vector<Number> numbers() {
    std::vector<Number> all;
    const std::string list = text();
    for (std::size_t begin = 0; !list.empty() && begin <= list.size();) {
      const auto comma = std::min(list.find(',', begin), list.size());
      all.push_back(parse<Number>(list.substr(begin, comma - begin)));
      begin = comma + 1;
    }
    return all;
  }
  [[nodiscard]] bool are_right() const { return is_right_ && at_ == words_.size(); }

 private:
  template <class Number>
  Number parse(const std::string& word) {
    const auto number = number_of<Number>(word);
    if (!number) is_right_ = false;
    return number.value_or(Number{});
  }

  std::span<const char* const> words_;
  std::size_t at_ = 0;
  bool is_right_ = true;
};

}  // namespace

std::vector<std::string> Assignment::words() const {
  return {variant,
          fmt::format("{}", post.reader),
          fmt::format("{}", post.cpu),
          fmt::format("{}", link),
          text_of(sockets),
          text_of(cpus),
          fmt::format("{}", helper),
          what.name,
          fmt::format("{}", what.bytes),
          what.directory,
          text_of(what.segments),
          fmt::format("{}", what.in_flight),
          fmt::format("{}", what.readers),
          what.times_send ? "1" : "0",
          what.keeps_payload ? "1" : "0",
          what.crowded ? "1" : "0"};
}

Result<Assignment> Assignment::parse(std::span<const char* const> words) {
  Words in(words);
  Assignment told;
  told.variant = in.text();
  told.post.reader = in.number<int>();
  told.post.cpu = in.number<int>();
  told.link = in.number<int>();
  told.sockets = in.numbers<int>();
  told.cpus = in.numbers<int>();
  told.helper = in.number<int>();
  told.what.name = in.text();
  told.what.bytes = in.number<Bytes>();
  told.what.directory = in.text();
  told.what.segments = in.numbers<Bytes>();
  told.what.in_flight = in.number<unsigned>();
  told.what.readers = in.number<unsigned>();
  told.what.times_send = in.number<int>() != 0;
  told.what.keeps_payload = in.number<int>() != 0;
  told.what.crowded = in.number<int>() != 0;
  if (in.are_right()) return told;
  return Unexpected({Code::invalid_argument, "only gantry bench ipc starts this program", ""});
}

std::string link_path(const Case& what, int reader) {
  return fmt::format("{}/end{}", what.directory, reader + 1);
}

std::string roudi_client(const Case& what, std::string_view variant, int reader) {
  const auto folder = what.directory.substr(what.directory.rfind('/') + 1);  // ours alone
  return fmt::format("{}-{}{}", folder, variant, reader + 1);
}

}  // namespace gantry::bench
