// Open MPI's collectives, as a rank that one mpirun started.
//   usage: gantry-peer-openmpi_collectives SOCKET NAMESPACES
#include <mpi.h>

#include <span>
#include <vector>

#include "../overlap/collective_data.hpp"
#include "../support/report/series.hpp"
#include "mpi_rank.hpp"

namespace gantry::bench {
namespace {

/// The memory of one size, kept.
struct Memory {
  std::vector<float> tensor;
  std::vector<float> result;
};

class MpiRank {
 public:
  explicit MpiRank(const MpiWorld& world) : rank_(world.rank), ranks_(world.ranks) {}

  Result<Answer> obey(const Command& command) {
    const Commanded told = commanded(command);
    const RankView view{told.kind, rank_, ranks_, told.bytes / sizeof(float)};
    if (memory_.tensor.size() != view.size)
      memory_ = {std::vector<float>(view.size), std::vector<float>(view.size)};
    std::span<const float> result = memory_.tensor;
    if (told.kind == CollectiveKind::all_to_all) result = memory_.result;
    if (told.kind == CollectiveKind::reduce_scatter)
      result = std::span(memory_.result).first(view.piece());
    return make_trips({view, memory_.tensor, result,
                       [&]() -> Result<double> {
                         MPI_Barrier(MPI_COMM_WORLD);
                         const Stopwatch watch;
                         const int status = call(view);
                         const double ns = watch.spent().wall_ns;
                         MPI_Barrier(MPI_COMM_WORLD);
                         if (status == MPI_SUCCESS) return ns;
                         return Unexpected({Code::system, "Open MPI: a collective failed", ""});
                       }},
                      command.trips);
  }

 private:
  int call(const RankView& view) {
    float* const x = memory_.tensor.data();
    float* const y = memory_.result.data();
    const int size = static_cast<int>(view.size);
    const int piece = static_cast<int>(view.piece());
    switch (view.kind) {
      case CollectiveKind::all_gather:
        return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, piece, MPI_FLOAT,
                             MPI_COMM_WORLD);
      case CollectiveKind::reduce_scatter:
        return MPI_Reduce_scatter_block(x, y, piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case CollectiveKind::all_reduce:
        return MPI_Allreduce(MPI_IN_PLACE, x, size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case CollectiveKind::all_to_all:
        return MPI_Alltoall(x, piece, MPI_FLOAT, y, piece, MPI_FLOAT, MPI_COMM_WORLD);
      case CollectiveKind::broadcast:
        break;
    }
    return MPI_Bcast(x, size, MPI_FLOAT, 0, MPI_COMM_WORLD);
  }

  unsigned rank_;
  unsigned ranks_;
  Memory memory_;
};

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  if (argc != 3) return 2;
  return serve_as_mpi_rank(argv[1], argv[2], [](const MpiWorld& world) -> gantry::Result<Obey> {
    return Obey(
        [rank = MpiRank(world)](const Command& command) mutable { return rank.obey(command); });
  });
}
