package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// rankCommand makes this program a rank. The file for its times follows.
const rankCommand = "rank"

// rankBytes is the length of the times of a rank in the file: when Init and Finalize have returned, in nanoseconds since 1970.
const rankBytes = 16

// runRank is a rank: it initialises, finalizes, and writes when.
func runRank(ctx context.Context, file string) error {
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	var times [rankBytes]byte
	binary.NativeEndian.PutUint64(times[:], uint64(time.Now().UnixNano()))
	rank := p.World().Rank()
	if err := p.Finalize(); err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(times[8:], uint64(time.Now().UnixNano()))
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(times[:], int64(rank)*rankBytes); err != nil {
		return err
	}
	return f.Close()
}

// readTimes returns when the last of n ranks has returned from Init, and from Finalize.
func readTimes(file string, n int) (lastInit, lastFinalize time.Time, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return lastInit, lastFinalize, err
	}
	if len(b) != n*rankBytes {
		return lastInit, lastFinalize, fmt.Errorf("the ranks have written %d bytes, want those of %d ranks", len(b), n)
	}
	for ; len(b) > 0; b = b[rankBytes:] {
		i, f := int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:]))
		if i == 0 || f == 0 {
			return lastInit, lastFinalize, fmt.Errorf("one of %d ranks has written no times", n)
		}
		lastInit, lastFinalize = later(lastInit, time.Unix(0, i)), later(lastFinalize, time.Unix(0, f))
	}
	return lastInit, lastFinalize, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
