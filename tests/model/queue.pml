/* A queue of work: src/channel/queue/work_queue.cpp (serve(), take(), part(), deliver()),
 * work_ledger.{hpp,cpp}, work_member.cpp (get(), open_item(), done(), leave()).
 *
 * Items are put before all else. WORKERS ask, get, acknowledge, in the order of their kind, and may
 * die at any step (DEATH: so many of them). A worker has two connections: over one it says hello,
 * acknowledges and, when it dies, is heard to have gone, behind all that it said before; over the
 * other it asks and is answered. The dispatcher looks at both in any order.
 *
 * Properties: who acknowledges when it gets shows each item to its user at most once, and one that
 * no user saw is not lost (ON_GET; else: an item that was worked on to its end is acknowledged, or
 * its worker died before it said so). Nobody waits for ever, and in the end every item is done or
 * all workers are dead.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif

mtype = { hello, acknowledged, gone };

chan said[WORKERS] = [ITEMS + 3] of { mtype, byte };   /* the inbox: a ring for each */
chan asked[WORKERS] = [1] of { bit };                   /* the server */
chan answer[WORKERS] = [1] of { byte };
bool dead[WORKERS];
byte deaths;

#define NOBODY 255
#define WAITS 254
#define DONE 253
byte holder[ITEMS];             /* the ledger: who has it */
byte shown[ITEMS];              /* to users that got on to work on it */
bool known[WORKERS];
bool asking[WORKERS];
byte open = ITEMS;              /* items that are not done */

/* The process ends here; what it said before is heard before that. */
inline may_die() {
  if
#ifdef DEATH
  :: atomic { deaths < DEATH ->
       deaths++;
       dead[me] = true;
#ifdef MUTANT_GONE_OVERTAKES
       said[me]!!gone, 0;
#else
       said[me]!gone, 0;
#endif
       goto over
     }
#endif
  :: skip
  fi
}

proctype Worker(byte me) {
  byte item;
  said[me]!hello, 0;
  do
  :: may_die();
     asked[me]!1;
     may_die();
     if
     :: answer[me]?item
     :: open == 0 && empty(answer[me]) -> break
     fi;
     may_die();
#ifdef ON_GET
#ifdef MUTANT_SHOWN_BEFORE_SAID
     shown[item]++;
     may_die();
     said[me]!acknowledged, item;
#else
     said[me]!acknowledged, item;               /* open_item() */
     may_die();
     shown[item]++;
#endif
#else
     shown[item]++;
     may_die();
     said[me]!acknowledged, item;               /* done() */
#endif
     assert(shown[item] <= 1 + deaths);
#ifdef ON_GET
     assert(shown[item] == 1)
#endif
  od;
over:
  skip
}

inline take_all_back(worker) {
  n = 0;
  do
  :: n < ITEMS ->
     if
     :: holder[n] == worker -> holder[n] = WAITS
     :: else
     fi;
     n++
  :: else -> break
  od
}

/* One look at one connection. */
inline hear(worker) {
  if
  :: said[worker]?hello, n -> known[worker] = true
  :: said[worker]?acknowledged, n ->
     if
     :: holder[n] == worker -> holder[n] = DONE; open--
     :: else
     fi
  :: said[worker]?gone, n ->
     known[worker] = false;
     asking[worker] = false;
#ifndef MUTANT_GONE_KEEPS_ITS_ITEMS
     take_all_back(worker)
#endif
  fi
}

inline hand_out(worker, item) {
#ifdef MUTANT_HANDS_TO_UNKNOWN
  asking[worker] && holder[item] == WAITS ->
#else
  asking[worker] && known[worker] && holder[item] == WAITS ->
#endif
  asking[worker] = false;
  if
  :: dead[worker]               /* reply() says so: not_delivered() */
  :: holder[item] = worker;     /* it went out, whether anybody reads it or not */
     answer[worker]!item
  fi
}

active proctype Dispatcher() {
  byte n;
  byte w;
  do
  :: atomic { n < ITEMS -> holder[n] = WAITS; n++ }
  :: else -> break
  od;
  w = 0;
  do
  :: atomic { w < WORKERS -> run Worker(w); w++ }
  :: else -> break
  od;
  do
  :: atomic { nempty(said[0]) -> hear(0) }
  :: atomic { nempty(said[1]) -> hear(1) }
  :: atomic { asked[0]?_ -> asking[0] = true }
  :: atomic { asked[1]?_ -> asking[1] = true }
  :: atomic { hand_out(0, 0) }
  :: atomic { hand_out(1, 0) }
  :: atomic { hand_out(0, 1) }
  :: atomic { hand_out(1, 1) }
  :: atomic { empty(said[0]) && empty(said[1]) && (open == 0 || (dead[0] && dead[1])) -> break }
  od;
  n = 0;
  do
  :: n < ITEMS ->
#ifdef ON_GET
     assert(holder[n] == DONE || shown[n] == 0);
#endif
     assert(holder[n] == DONE || (dead[0] && dead[1]));
     n++
  :: else -> break
  od
}
