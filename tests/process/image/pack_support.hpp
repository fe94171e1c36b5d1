#pragma once  // tests/process/image/pack_support.hpp: files that `gantry pack` is tried with.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "process/cli_support.hpp"

namespace gantry::test {

class Pack : public Cli {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return files_.file(name); }

  [[nodiscard]] Ended done(std::vector<std::string> words) const {
    Command command = gantry(words);
    command.cwd = files_.path();
    return run(command);
  }
  void expect_done(const std::vector<std::string>& words) const {
    const Ended ended = done(words);
    EXPECT_EQ(ended.status, 0) << ended.errors;
  }
  /// What `gantry pack` says of this file, which it refuses.
  [[nodiscard]] std::string said_of(const std::string& name, const std::string& bytes,
                                    std::vector<std::string> options = {}) const {
    write(name, bytes);
    std::vector<std::string> words{"pack", name, "out.gimg"};
    words.insert(words.end(), options.begin(), options.end());
    const Ended ended = done(words);
    EXPECT_EQ(ended.status, 1) << ended.output;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_FALSE(std::filesystem::exists(path("out.gimg")));
    return ended.errors;
  }
  [[nodiscard]] nlohmann::json listed(const std::string& image) const {
    return nlohmann::json::parse(done({"image", "ls", image, "--json"}).output);
  }

  ScratchDirectory files_;
};

/// A file of safetensors with that header.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text + header + data;
}

struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// As the library of that name writes it, without metadata.
inline std::string safetensors_of(const std::vector<Entry>& entries) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const Entry& one : entries) {
    header[one.name] = {{"dtype", one.dtype},
                        {"shape", one.shape},
                        {"data_offsets", {data.size(), data.size() + one.bytes.size()}}};
    data += one.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return safetensors_file(text, data);
}

}  // namespace gantry::test
