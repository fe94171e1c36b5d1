/* A queue of work: src/core/channel/queue/work_queue.cpp (serve(), take(), part(), deliver()),
 * work_ledger.{hpp,cpp}, work_member.cpp (get(), open_item(), done(), leave()), and of
 * src/core/channel/inbox/producer_listener.cpp announce() and is_expecting().
 *
 * WORKERS ask, get, acknowledge, in the order of their kind, and may die at any step (DEATH: so
 * many of them). A worker has one connection: over it it asks, acknowledges and, when it dies, is
 * heard to have gone, behind all that it said before; a way back brings it the answers.
 *
 * Items are put before all else. With FINISH a putter joins, puts them and finishes the queue: it
 * believes itself in before the acceptor's thread has announced it to the dispatcher.
 *
 * Properties: who acknowledges when it gets shows each item to its user at most once, and one that
 * no user saw is not lost (ON_GET; else: an item that was worked on to its end is acknowledged, or
 * its worker died before it said so). Nobody waits for ever, and in the end every item is done or
 * all workers are dead. No item that was put before finish() is dropped.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif

mtype = { asks, acknowledged, gone };

chan said[WORKERS] = [2 * ITEMS + 3] of { mtype, byte };   /* the inbox: a ring for each */
#ifdef MUTANT_ASKS_BY_ANOTHER_WAY
chan asked[WORKERS] = [1] of { bit };
#endif
chan answer[WORKERS] = [1] of { byte };
bool dead[WORKERS];
byte deaths;

#define NOBODY 255
#define WAITS 254
#define DONE 253
byte holder[ITEMS];             /* the ledger: who has it */
byte shown[ITEMS];              /* to users that got on to work on it */
bool asking[WORKERS];
byte open = ITEMS;              /* items that are not done */
#ifdef FINISH
#define NOT_PUT 252
chan put[1] = [ITEMS] of { byte };  /* the putter's ring */
byte under_way;                     /* callers whose handshake is under way */
bool announced;
bool finish_wished;
bool closed;
#endif

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
  do
  :: may_die();
#ifdef MUTANT_ASKS_BY_ANOTHER_WAY
     asked[me]!1;
#else
     said[me]!asks, 0;
#endif
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
  :: said[worker]?asks, n -> asking[worker] = true
  :: said[worker]?acknowledged, n ->
     if
     :: holder[n] == worker -> holder[n] = DONE; open--
     :: else
     fi
  :: said[worker]?gone, n ->
     asking[worker] = false;
#ifndef MUTANT_GONE_KEEPS_ITS_ITEMS
     take_all_back(worker)
#endif
  fi
}

inline hand_out(worker, item) {
  asking[worker] && holder[item] == WAITS ->
  asking[worker] = false;
  if
  :: dead[worker]               /* reply() says so: not_delivered() */
  :: holder[item] = worker;     /* it went out, whether anybody reads it or not */
     answer[worker]!item
  fi
}

#ifdef FINISH
/* let_in() and announce(), on the acceptor's thread. */
proctype Acceptor() {
#ifdef MUTANT_FORGOTTEN_BEFORE_ANNOUNCED
  under_way--;
  announced = true
#else
  announced = true;
  under_way--
#endif
}

proctype Putter() {
  byte n;
  under_way++;                  /* begin(): before the caller is answered */
  run Acceptor();
  do
  :: n < ITEMS -> put[0]!n; n++
  :: else -> break
  od;
  finish_wished = true          /* put() has returned */
}

/* serve(): the part of a turn that takes in what is put. */
inline take_in() {
  do
  :: atomic { (announced && len(put[0]) > 0) ->
       put[0]?item;
       assert(!closed);         /* else it is counted as dropped */
       holder[item] = WAITS
     }
  :: atomic { (!announced || len(put[0]) == 0) -> break }
  od
}

proctype Turns() {
  byte item;
  bool wish;
  bool expects;
  do
  :: closed && announced -> break
  :: else ->
     wish = finish_wished;
#ifdef MUTANT_CALLERS_ASKED_AFTER_LOOK
     take_in();
     expects = under_way != 0;
#else
     expects = under_way != 0;
     take_in();
#endif
#ifdef MUTANT_FINISH_WAITS_FOR_NOBODY
     expects = false;
#endif
     closed = closed || (wish && !expects)
  od;
  take_in()
}
#endif

active proctype Dispatcher() {
  byte n;
  byte w;
#ifdef FINISH
  do
  :: atomic { n < ITEMS -> holder[n] = NOT_PUT; n++ }
  :: atomic { else -> run Putter(); run Turns(); break }
  od;
#endif
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
#ifdef MUTANT_ASKS_BY_ANOTHER_WAY
  :: atomic { asked[0]?_ -> asking[0] = true }
  :: atomic { asked[1]?_ -> asking[1] = true }
#endif
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
