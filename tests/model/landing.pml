/* A message that is published first and lands after: landing word, streamed window, abort, and the
 * sleeps of both sides: SendOperation::publish_then_copy(), copy_chunks(), await_window(), landed(),
 * abort() (src/core/channel/producer/send_operation.cpp), Publisher::wake_holders(), chunks_passed_of(), left(),
 * IncomingMessage, ConsumerWaiter::wait_for_landing(), ReceivedPayloads::pass_chunks()
 * (src/core/channel/consumer).
 *
 * The number that stands beside the landing word is always the message's own here, where no reader is
 * cut; cut.pml has it.
 *
 * One slot, which every message takes in turn, so that landing word and `passed` word are used again.
 * Each message is pipelined or streamed, its sender may give it up half-way, its readers may drop it
 * at any chunk, leave with it in hand (an Incoming may outlive its Consumer) or die.
 *
 * Properties. A chunk that is handed out is what the sender put there, and is not written while it is
 * in hand unless its reader is dead (write(), use()). What an honest sender stores never looks dishonest
 * (landed()). A message is whole only when all its chunks came (whole()). Nobody sleeps for ever.
 */
#ifndef READERS
#define READERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#if READERS > 1
#define READERS_WAKE            /* they never oversleep: their sleep is seen with one of them */
#endif
#define CHUNKS 3
#define WINDOW 2
#define ABORTED 128             /* LandingWord::kAborted */
#define TORN 255
#define NONE 255
#define BIT(c) (1 << (c))

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence;                  /* of the newest record, in every ring [P] */
bool streamed;                  /* its kind: kStreamed */
bool end;                       /* [E] */
byte landing;                   /* LandingWord of the slot [L] */
byte passed_number[READERS], passed[READERS];   /* passed_word(): one word [C] */
byte released[READERS];         /* [R] */
byte block[CHUNKS];             /* payload; streamed: the first WINDOW of it. The chunk's name */
byte own[READERS];              /* ConsumerPage::taken [T] */
bool producer_sleeps, producer_event, rang_producer[READERS];
bool consumer_sleeps[READERS], consumer_event[READERS], rang_consumer[READERS];

/* ---- what the kernel knows ---- */
bool hung_up[READERS], dead[READERS];

/* ---- the producer's process ---- */
byte members, holders;          /* readers; who needs the slot, as bits */

/* ---- what the properties speak of ---- */
byte in_hand[READERS];          /* the place in the block, or NONE */

#define NAME(number, chunk) ((number) * 8 + (chunk))

/* ---- the producer ---- */

inline wake(c) {                                /* ConsumerState::wake() */
#ifdef READERS_WAKE
  skip
#else
  atomic {
    must = consumer_sleeps[c] && !rang_consumer[c];              /* [D4] */
    rang_consumer[c] = rang_consumer[c] || must
  };
  if
  :: atomic { must -> consumer_event[c] = true }
  :: else
  fi
#endif
}

inline wake_holders() {
  if
  :: holders & BIT(0) -> wake(0)
  :: else
  fi;
#if READERS > 1
  if
  :: holders & BIT(1) -> wake(1)
  :: else
  fi;
#endif
  skip
}

inline announce_producer() {
  atomic {
    producer_sleeps = true;
    rang_producer[0] = false;
#if READERS > 1
    rang_producer[1] = false
#endif
  }
}

/* refresh(): reclaim() and forget_departed(), reader by reader. */
inline refresh() {
  atomic {
    if
    :: released[0] == number -> holders = holders & (255 - BIT(0))       /* [R] [D2] */
    :: else
    fi
  };
#if READERS > 1
  atomic {
    if
    :: released[1] == number -> holders = holders & (255 - BIT(1))
    :: else
    fi
  };
#endif
  skip
}

#ifdef MUTANT_PASSED_WITHOUT_NUMBER
#define CHUNKS_PASSED(c) passed[c]
#else
#define CHUNKS_PASSED(c) (passed_number[c] == number -> passed[c] : 0)
#endif
#ifdef MUTANT_WINDOW_ONE_CHUNK_EARLY
#define FITS(p) (chunk <= (p) + WINDOW)
#else
#define FITS(p) (chunk < (p) + WINDOW)
#endif

/* chunks_passed_of() and what await_window() waits for; each word a step. */
inline look_at_window() {
  refresh();
  room = !(holders & BIT(0)) || FITS(CHUNKS_PASSED(0));          /* [C] [D2] */
#if READERS > 1
  room = room && (!(holders & BIT(1)) || FITS(CHUNKS_PASSED(1)));
#endif
  skip
}

inline look_at_slot() {
  refresh();
  room = holders == 0
}

/* Producer::Impl::wait_until() */
#define WAIT_UNTIL(look)    \
  do                                                           \
  :: look;                                                     \
     if                                                        \
     :: room -> break                                          \
     :: else                                                   \
     fi;                                                       \
     announce_producer();                       /* [D1] */     \
     look;                                                     \
     if                                                        \
     :: room -> producer_sleeps = false                        \
     :: else ->                                                \
        (producer_event);                       /* poll() */   \
        producer_sleeps = false;                               \
        producer_event = false                  /* drain() */  \
     fi                                                        \
  od

inline write(at, what) {
  assert(dead[0] || in_hand[0] != at);
#if READERS > 1
  assert(dead[1] || in_hand[1] != at);
#endif
  block[at] = what
}

inline copy_chunk() {                           /* copy(), then landed() */
  atomic { at = (streamed -> chunk % WINDOW : chunk); write(at, TORN) };
#ifdef MUTANT_WORD_BEFORE_COPY
  landing = chunk + 1;
  write(at, NAME(number, chunk));
#else
  write(at, NAME(number, chunk));
  landing = chunk + 1;                          /* [L] [D3] */
#endif
#ifndef MUTANT_LANDED_WITHOUT_WAKE
  wake_holders()
#endif
}

inline abort() {
#ifdef MUTANT_ABORTED_AS_WHOLE
  landing = CHUNKS;
#else
  landing = chunk | ABORTED;                    /* [L] [D3] */
#endif
#ifndef MUTANT_ABORT_WITHOUT_WAKE
  wake_holders()
#endif
}

proctype Producer() {
  byte number, chunk, at;
  bool must, room;
  do
  :: number < MESSAGES ->
     WAIT_UNTIL(look_at_slot());
     atomic {
       number++;
       if
       :: streamed = true
       :: streamed = READERS > 1                /* with several the window is what matters */
       fi
     };
#ifndef MUTANT_WORD_NOT_ZEROED
     landing = 0;
#endif
     atomic { holders = members; sequence = number };            /* publish() [P] [D3] */
     wake_holders();
     chunk = 0;
     do
     :: chunk < CHUNKS ->
        if
        :: streamed && chunk >= WINDOW -> WAIT_UNTIL(look_at_window())
        :: else
        fi;
        if
        :: streamed && holders == 0 -> break    /* unwanted_ */
        :: else
        fi;
        if
        :: copy_chunk()
        :: abort();                             /* the payload cannot be read */
           break
        fi;
        chunk++
     :: else -> break
     od
  :: else -> break
  od;
  WAIT_UNTIL(look_at_slot());                   /* every credit comes back */
  end = true;                                   /* close() [E] [D3] */
  wake(0);
#if READERS > 1
  wake(1)
#endif
}

/* left(). Nobody waits for one that left: it reads on no further, neither the window nor the landing
 * word, and what it says afterwards counts for nothing. */
inline gone(c) {
  atomic {
    (hung_up[c] || dead[c]) && (members & BIT(c)) ->
    members = members & (255 - BIT(c));
    holders = holders & (255 - BIT(c))
  };
#ifndef MUTANT_LEFT_WITHOUT_RING
  producer_event = true
#endif
}

proctype Acceptor() {
end_idle:
  do
  :: gone(0)
#if READERS > 1
  :: gone(1)
#endif
  od
}

/* ---- a reader ---- */

inline ring_producer() {
  atomic {
    must = producer_sleeps && !rang_producer[me];                /* [D4] */
    rang_producer[me] = rang_producer[me] || must
  };
  if
  :: atomic { must -> producer_event = true }
  :: else
  fi
}

inline pass() {                                 /* pass_chunks() */
  if
  :: is_streamed && taken > 0 ->
     atomic { passed_number[me] = own[me]; passed[me] = taken };         /* [C] [D3] */
#ifndef MUTANT_PASSED_WITHOUT_RING
     ring_producer()
#endif
  :: else
  fi
}

inline look_at_landing() {                      /* IncomingMessage::landed() */
  atomic {
    word = landing;                             /* [L] [D2] */
    aborted = word >= ABORTED;
    word = word % ABORTED;
    assert(word >= landed && word <= CHUNKS);
    landed = word;
    word = 0;
    there = landed > taken || aborted
  }
}

inline look_at_ring() {                         /* ready() [P] [D2], at_end() [E] [D2] */
  there = sequence > own[me] || end
}

#define RING_NEWS (sequence > own[me] || end)
#define LANDING_NEWS (landing % ABORTED > taken || landing >= ABORTED)

/* wait_once() until `there`. Who left has cut its own line, which ends a sleep at once. */
#ifdef READERS_WAKE
#define SLEEP_UNTIL(look, news) (news || hung_up[me]); look
#else
#define SLEEP_UNTIL(look, news)                                                                       \
  do                                                                                            \
  :: look;                                                                                      \
     if                                                                                         \
     :: there || hung_up[me] -> break                                                           \
     :: else                                                                                    \
     fi;                                                                                        \
     atomic { consumer_sleeps[me] = true; rang_consumer[me] = false };   /* announce() [D1] */  \
     look;                                                                                      \
     if                                                                                         \
     :: there -> consumer_sleeps[me] = false                                                    \
     :: else ->                                                                                 \
        (consumer_event[me]);                   /* poll() */                                    \
        consumer_sleeps[me] = false;                                                            \
        consumer_event[me] = false              /* drain() */                                   \
     fi                                                                                         \
  od
#endif

inline use() {
  atomic {
    at = (is_streamed -> taken % WINDOW : taken);
    assert(block[at] == NAME(own[me], taken));
    in_hand[me] = at
  };
#ifdef MUTANT_PASSED_BEFORE_READ
  taken++;
  pass();
  taken--;
#endif
  atomic {
    assert(block[at] == NAME(own[me], taken));
    in_hand[me] = NONE;
    at = 0
  }
}

proctype Consumer(byte me) {
  byte landed, taken, word, at;
  bool is_streamed, aborted, there, must, leaves;
  {
    do
    :: SLEEP_UNTIL(look_at_ring(), RING_NEWS);
       if
       :: sequence == own[me] -> break          /* `closed` */
       :: else
       fi;
       atomic { own[me] = own[me] + 1; is_streamed = streamed; landed = 0; taken = 0; aborted = false };
       do                                       /* Incoming::next() until the end */
       :: taken < CHUNKS ->
          pass();
          SLEEP_UNTIL(look_at_landing(), LANDING_NEWS);
          if
          :: landed > taken -> use(); taken++
          :: else -> break                      /* `aborted`, or `peer_gone` after leaving */
          fi
       :: taken == CHUNKS -> break              /* whole */
       :: taken < CHUNKS -> break               /* dropped */
#ifdef LEAVES
       :: me == 0 && !leaves -> leaves = true; hung_up[me] = true
#ifndef MUTANT_READS_ON_AFTER_LEAVING
          ; break                               /* check_line() */
#endif
#endif
       od;
       released[me] = own[me];                  /* give_back() [R] [D3] */
       ring_producer();
       if
       :: leaves -> break
       :: else
       fi
    od
  } MORTAL(dead[me])
}

proctype Reaper() {
#ifdef DEATH
  if
  :: dead[0] = true
  :: skip
  fi
#else
  skip
#endif
}

init {
  atomic {
    byte c;
    do
    :: c < READERS -> in_hand[c] = NONE; members = members | BIT(c); run Consumer(c); c++
    :: else -> break
    od;
    run Producer();
    run Acceptor();
    run Reaper()
  }
}
