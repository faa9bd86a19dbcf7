#!/bin/sh
# A service from its first decision to its evaluation, with curl: the walk of service.py without a line of Python.
# Needs curl and the command oddsmith (extras service and logs); works in a temporary folder, on a free port.
set -eu
folder=$(mktemp -d)
cd "$folder"
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

cat > news.toml <<'END'
arms = ["sports", "politics", "tech"]
seed = 7
[policy]
kind = "auto"
gamma = 0.5
END

oddsmith serve news.toml --port 0 2> serve.log &
server=$!
until grep -q listening serve.log; do
  kill -0 "$server" 2>/dev/null || { cat serve.log; exit 1; }
  sleep 0.1
done
at=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' serve.log)
until curl -sf "$at/readyz" > /dev/null; do sleep 0.1; done

ask() { curl -sSf "$at/v1/$1" -d "$2"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# Visitors of two days, whose clicks come in late: the list of a day is sent at its end. Phones read tech, others sports.
for day in 1 2; do
  rewards=
  for visit in $(seq 80); do
    case $((visit % 2)) in 0) device=phone likes=tech ;; *) device=laptop likes=sports ;; esac
    id="day-$day-visit-$visit"
    arm=$(ask decide "{\"id\": \"$id\", \"context\": {\"device\": \"$device\"}}" | field arm)
    if [ "$arm" = "$likes" ]; then click=1; else click=0; fi
    rewards="$rewards{\"id\": \"$id\", \"reward\": $click},"
  done
  ask reward/batch "{\"rewards\": [${rewards%,}]}" > /dev/null
  echo "day $day: $(printf %s "$rewards" | grep -o '"reward": 1' | wc -l) of 80 clicked"
done

echo "sent again, the same answer:"
ask decide '{"id": "day-1-visit-1", "context": {"device": "laptop"}}'
echo
echo "a correction:"
ask correct '{"id": "day-1-visit-1", "reward": 0.5, "key": "clerk-1"}'
echo
echo "whom it trusts:"
curl -sSf "$at/v1/posterior"
echo
echo "one decision, taken apart:"
curl -sSf "$at/v1/decisions/day-2-visit-80?explain=true"
echo

kill "$server"
wait "$server" || true
oddsmith verify news.sqlite --models news.toml
oddsmith export news.sqlite --out log.parquet
oddsmith evaluate log.parquet --target uniform
