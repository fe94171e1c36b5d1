#pragma once  // bench/support/ends.hpp: what the two processes of a pair do with their commands.

#include "link.hpp"
#include "subject.hpp"

namespace gantry::bench {

/// Opens the asking end, then makes the trips of each command and times them, until the link ends.
void run_requester(Link& link, Subject& subject, Bytes bytes);

/// Opens the answering end, then serves the trips of each command, until the link ends.
void run_responder(Link& link, Subject& subject);

}  // namespace gantry::bench
