#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "schedule/program/script.hpp"
#include "schedule/quote.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gcoll";

Result<std::string> read_text(const std::string& path) {
  // O_NONBLOCK: a pipe of that name must not hold us up.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail_errno(path);
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path);
  if (!S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, fmt::format("{}: it is no file", path));
  std::string text(collective::kLongestProgram + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > collective::kLongestProgram)
    return fail(Code::too_large,
                fmt::format("{}: more than {} bytes", path, collective::kLongestProgram));
  text.resize(size);
  return text;
}

Result<CollectiveProgram> load_file(const std::string& path) {
  GANTRY_ASSIGN(const std::string text, read_text(path));
  auto program = parse_collective(text);
  if (program) return program;
  Error error = std::move(program).error();
  error.message = fmt::format("{}: {}", path, error.message);
  return tl::unexpected(std::move(error));
}

// Sorted, so that everybody finds them in the same order.
Result<std::vector<std::string>> programs_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == kExtension) paths.push_back(entry->path().string());
  if (error) return fail_errno(folder, error.value());
  std::ranges::sort(paths);
  return paths;
}

Result<std::vector<CollectiveProgram>> builtins() {
  std::vector<CollectiveProgram> all;
  for (const std::string_view text : collective::builtin_programs()) {
    GANTRY_ASSIGN(const CollectiveProgram program, parse_collective(text));
    all.push_back(program);
  }
  return all;
}

}  // namespace

const std::string& CollectiveProgram::name() const noexcept {
  return script_->name;
}
const std::string& CollectiveProgram::about() const noexcept {
  return script_->about;
}
const std::vector<std::string>& CollectiveProgram::variants() const noexcept {
  return script_->variants;
}

Result<std::vector<CollectiveProgram>> list_collectives(const std::string& folder) {
  return guarded([&]() -> Result<std::vector<CollectiveProgram>> {
    GANTRY_ASSIGN(std::vector<CollectiveProgram> all, builtins());
    if (folder.empty()) return all;
    GANTRY_ASSIGN(const std::vector<std::string> paths, programs_in(folder));
    for (const std::string& path : paths) {
      GANTRY_ASSIGN(const CollectiveProgram program, load_file(path));
      for (const CollectiveProgram& other : all)
        if (other.name() == program.name())
          return fail(Code::already_exists,
                      fmt::format("{}: there is a collective {} already", path, program.name()),
                      "give it another name");
      all.push_back(program);
    }
    std::ranges::sort(all, {}, &CollectiveProgram::name);
    return all;
  });
}

Result<CollectiveProgram> load_collective(const std::string& what) {
  return guarded([&]() -> Result<CollectiveProgram> {
    if (what.find('/') != std::string::npos || what.ends_with(kExtension)) return load_file(what);
    GANTRY_ASSIGN(const std::vector<CollectiveProgram> all, builtins());
    std::vector<std::string_view> names;
    for (const CollectiveProgram& program : all) {
      if (program.name() == what) return program;
      names.push_back(program.name());
    }
    return fail(Code::not_found, "there is no collective " + quote(what),
                fmt::format("{}; or the path of a file", fmt::join(names, ", ")));
  });
}

}  // namespace gantry
