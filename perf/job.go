package perf

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// MergeOps adds up the operations of several ranks, by operation and then class.
func MergeOps(ranks ...*Snapshot) []OpStat {
	type key struct {
		op    Op
		class Class
	}
	sums := map[key]*OpStat{}
	for _, s := range ranks {
		for _, o := range s.Ops {
			k := key{o.Op, o.Class}
			sum := sums[k]
			if sum == nil {
				sum = &OpStat{Op: o.Op, Class: o.Class}
				sums[k] = sum
			}
			sum.add(o)
		}
	}
	all := make([]OpStat, 0, len(sums))
	for _, o := range sums {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b OpStat) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Class, b.Class)) })
	return all
}

func (o *OpStat) add(other OpStat) {
	o.Calls += other.Calls
	o.Bytes += other.Bytes
	o.Time += other.Time
	if other.Latency != nil {
		if o.Latency == nil {
			o.Latency = &Histogram{}
		}
		o.Latency.Merge(other.Latency)
	}
}

// MergeClasses adds up the sizes: one entry for each operation, ascending, with Class 0.
func MergeClasses(of []OpStat) []OpStat {
	sums := map[Op]*OpStat{}
	for _, o := range of {
		if sums[o.Op] == nil {
			sums[o.Op] = &OpStat{Op: o.Op}
		}
		sums[o.Op].add(o)
	}
	all := make([]OpStat, 0, len(sums))
	for _, op := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, *sums[op])
	}
	return all
}

// MergeTraffic adds up the traffic of several ranks, by direction, transport and protocol.
func MergeTraffic(ranks ...*Snapshot) []Traffic {
	sums := map[Traffic]Volume{} // key: Traffic with zero Volume
	for _, s := range ranks {
		for _, t := range s.Traffic {
			v := t.Volume
			t.Volume = Volume{}
			sums[t] = sums[t].plus(v)
		}
	}
	all := make([]Traffic, 0, len(sums))
	for t, v := range sums {
		t.Volume = v
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Traffic) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Transport, b.Transport), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all
}

// Time returns the time that the rank spent within calls of package mpi, added over all its goroutines.
func (s *Snapshot) Time() (d time.Duration) {
	for _, o := range s.Ops {
		d += o.Time
	}
	return d
}

// Calls returns the number of calls and bytes of all operations.
func (s *Snapshot) Calls() (calls, bytes uint64) {
	for _, o := range s.Ops {
		calls += o.Calls
		bytes += o.Bytes
	}
	return calls, bytes
}

// Wall returns the run time of the rank: from when it joined the other ranks until it finalized, or until now if it has not.
func (s *Snapshot) Wall(now time.Time) time.Duration {
	if !s.Ended.IsZero() {
		now = s.Ended
	}
	began := s.Joined
	if began.IsZero() {
		began = s.Began
	}
	return max(now.Sub(began), 0)
}

// Share returns the share of the interval between two snapshots of a rank that it spent within calls, from 0 to 1. An operation
// in progress is not in the counters before it ends; if the same operation is in both snapshots, the share is 1.
func Share(earlier, later *Snapshot, apart time.Duration) float64 {
	if apart <= 0 {
		return 0
	}
	for _, c := range later.Current {
		if slices.Contains(earlier.Current, c) {
			return 1
		}
	}
	return min(max(float64(later.Time()-earlier.Time())/float64(apart), 0), 1)
}
