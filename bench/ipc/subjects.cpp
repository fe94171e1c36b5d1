#include "subjects.hpp"

namespace gantry::bench {

std::vector<SubjectKind> all_subjects() {
  return {gantry_sync(), gantry_loan(), shm_two_copies(), pipe_stream(),
          unix_socket(), ping_pong(),   single_copy()};
}

}  // namespace gantry::bench
