// Two layers of a transformer's MLP over several ranks. README.md
#include "launch.hpp"

int main(int argc, char** argv) {
  using namespace tensor_parallel;
  const auto parsed = parse_options(argc, argv);
  if (const int* const status = std::get_if<int>(&parsed)) return *status;
  const auto& options = std::get<Options>(parsed);
  return options.rank ? be_one_rank(options) : start_all_ranks(options);
}
