// Stands in for libFuzzer where there is none: runs a target over files, and over so many changed
// copies of them. The changes are the same at every run.
//   TARGET [-runs=N] FILE|FOLDER...
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "fuzz/input.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

void add_file(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
  std::ifstream file(path, std::ios::binary);
  seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void add(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
  if (!std::filesystem::is_directory(path)) return add_file(path, seeds);
  for (const auto& entry : std::filesystem::directory_iterator(path)) add_file(entry, seeds);
}

void change(Bytes& bytes, const Bytes& other, std::mt19937_64& random) {
  for (auto times = 1 + random() % 4; times > 0 && !bytes.empty(); --times) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(bytes.end(), other.begin(), other.end());
        break;
      default:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 8, 0xff);
        break;
    }
  }
}

}  // namespace

int main(int count, char** words) {
  std::size_t runs = 0;
  std::vector<Bytes> seeds;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("-runs="))
      std::from_chars(word.data() + 6, word.data() + word.size(), runs);
    else
      add(word, seeds);
  }
  if (seeds.empty()) {
    std::cerr << "no seeds\n";
    return 1;
  }
  for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  std::mt19937_64 random(1);
  for (std::size_t run = 0; run < runs; ++run) {
    Bytes bytes = seeds[random() % seeds.size()];
    change(bytes, seeds[random() % seeds.size()], random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cout << seeds.size() << " seeds, " << runs << " changed copies\n";
}
