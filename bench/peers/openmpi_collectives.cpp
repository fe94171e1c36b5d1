// Open MPI's collectives: a rank that one mpirun started. It connects to the benchmark's socket,
// says which rank it is, and does what it is told there. Between commands it sleeps.
//   usage: gantry-peer-openmpi_collectives SOCKET
#include <mpi.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <map>

#include "../overlap/collective_data.hpp"
#include "../support/report/series.hpp"

namespace gantry::bench {
namespace {

/// The memory of one size, kept.
struct Memory {
  std::vector<float> tensor;
  std::vector<float> result;
};

class MpiRank {
 public:
  MpiRank() {
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank_ = static_cast<unsigned>(number);
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    ranks_ = static_cast<unsigned>(number);
  }
  [[nodiscard]] unsigned rank() const noexcept { return rank_; }

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

  unsigned rank_ = 0;
  unsigned ranks_ = 1;
  Memory memory_;
};

int serve(const char* path) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return 1;
  std::strcpy(address.sun_path, path);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 1;
  MPI_Init(nullptr, nullptr);
  {
    MpiRank body;
    const std::uint64_t rank = body.rank();
    Link link = Link::inherited(socket);
    if (link.send(Command{.trips = rank}))
      obey_commands(link, [&](const Command& command) { return body.obey(command); });
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  return argc == 2 ? gantry::bench::serve(argv[1]) : 2;
}
