-- One experiment's events, in one total order of positions. Nothing in `events` and `decisions` is ever changed.

create table meta (          -- format, fingerprint and description of the first policy, reward rule, what was said about it
    name text primary key,
    value text not null
) without rowid;

create table events (        -- light lines: what the bookkeeping of rewards needs
    position integer primary key,
    kind text not null check (kind in
        ('decision', 'activation', 'reward', 'default', 'correction', 'expert added', 'expert retired')),
    id text not null,        -- of the decision, or the expert's name
    key text not null,       -- tells parts of a sum, corrections and changes of one expert apart
    value real,              -- reward, default, correction, or an expert's prior share
    time real not null,      -- for people and for erasing; the fold never looks at it
    deferred integer not null default 0,
    seen integer             -- position of the state a decision was made with
);

create unique index once on events (id, kind, key);  -- this is the idempotence

create table decisions (     -- all of a decision but its context
    position integer primary key,
    body text not null,      -- JSON: step, eligible, arm, index, how many numbers there are of each name, how votes are kept
    numbers blob not null,   -- those numbers one after the other: float64, little-endian; then the votes
    context integer not null -- whether it had one
);

create table contexts (      -- erased after a while; the fold of fixed experts does not need them
    position integer primary key,
    time real not null,
    body text not null
);

create index age on contexts (time);

create table snapshots (
    position integer primary key,
    fingerprint text not null,
    format text not null,
    time real not null,
    content blob not null
);
