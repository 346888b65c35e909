#!/bin/bash
# Records the programs of fit_record.py, each at small sizes and at one four
# times larger, with PyTorch's own peaks (native and expandable segments).
#
#     OUT=FOLDER tests/gpu/fit_record_all.sh [NAME-PATTERN]
#
# Writes $OUT/KIND/NAME.SIZE.pickle.xz, .pickle.json and .expandable.json, four
# at a time. PYTHON and JOBS choose the interpreter and how many. A run that
# fails leaves NAME.SIZE.log behind, and is counted at the end.
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${OUT:?the folder that the recordings go to}"
export OUT here PYTHON=${PYTHON:-python3}
export PYTORCH_KERNEL_CACHE_PATH=${PYTORCH_KERNEL_CACHE_PATH:-/tmp}
pattern=${1:-.}

# NAME KIND VARIABLE SMALL,SMALL[,SMALL] LARGE [MORE...]
studies() {
	cat <<-'END'
	compiled-batch compiled batch 4,8,16 64
	graphed-batch graphed batch 4,8,16 64
	dense-batch dense batch 2,4,8 32
	dense-length dense length 128,256,512 2048
	dense-hidden dense hidden 256,512 2048
	dense-all dense batch 3,5 20 --stacks all
	sharded-batch sharded batch 2,4,8 32
	sharded-ranks sharded ranks 2,4,8 32 --set hidden=1024
	checkpointed-batch checkpointed batch 4,8,16 64
	checkpointed-layers checkpointed layers 2,4 16
	lora-batch lora batch 2,4,8 32 --set hidden=1024
	lora-rank lora rank 16,32 128 --set hidden=1024
	detection-batch detection batch 2,4,8 32
	detection-image detection image 256,320 1280
	diffusion-batch diffusion batch 4,8,16 64
	diffusion-image diffusion image 32,64 256
	server-batch server batch 4,8,16 64
	server-answer server answer 16,32 128 --set batch=16
	END
}

jobs_of() {
	studies | grep -e "$pattern" | while read -r name kind var small large more
	do
		for n in ${small//,/ } "$large"; do
			echo "$name $kind $var $n $large native $more"
			echo "$name $kind $var $n $large expandable $more"
		done
	done
}

record() {
	local name=$1 kind=$2 var=$3 n=$4 large=$5 conf=$6 file log
	shift 6
	mkdir -p "$OUT/$kind"
	file=$OUT/$kind/$name.$n.pickle
	if [ "$conf" = expandable ]; then
		export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
		file=$OUT/$kind/$name.$n.expandable
		[ "$n" = "$large" ] || set -- "$@" --no-history
	fi
	log=$file.log
	if timeout 150 "$PYTHON" "$here/fit_record.py" --kind "$kind" \
		--set "$var=$n" "$@" -o "$file" >"$log" 2>&1; then
		tail -n 1 "$log"
		rm "$log"
		[ ! -f "$file" ] || xz -1 -f "$file" || gzip -f "$file"
	else
		echo "FAIL $file: $(tail -n 1 "$log")"
		rm -f "$file"
	fi
}
export -f record

jobs_of | xargs -P "${JOBS:-4}" -d '\n' -I '{}' bash -c 'record {}'
echo "$(find "$OUT" -name '*.pickle.json' | wc -l) recordings," \
	"$(find "$OUT" -name '*.log' | wc -l) failures," \
	"$(du -sm "$OUT" | cut -f1) MB"
