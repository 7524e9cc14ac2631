package verbs

import (
	"runtime"
	"sync/atomic"
)

// Poll takes up to len(wc) completions and returns their number. It neither allocates nor makes a system call. It returns
// [ErrOverrun] after an overrun, and [ErrDeviceLost] when the device is lost and the queue is empty: completions that are missing
// then never arrive. The first failed completion of a queue pair takes two system calls, which flush receives that were posted
// after the failure.
func (cq *CQ) Poll(wc []WC) (int, error) {
	if p := cq.indices.Load(); p != nil && atomic.LoadUint32(&p.Producer) == atomic.LoadUint32(&p.Consumer) {
		runtime.KeepAlive(cq) // keeps the mapping of the indices
		return 0, nil
	}
	cq.mu.Lock()
	if cq.ring == nil || cq.failed != nil {
		n, err := cq.pollProvider(wc)
		cq.mu.Unlock()
		if n > 0 {
			cq.handleFailures(wc[:n])
		}
		return n, err
	}
	n, failed := cq.ring.Poll(castWC(wc))
	cq.mu.Unlock()
	if failed {
		cq.handleFailures(wc[:n])
	}
	return n, nil
}

// pollProvider is Poll of a queue without a ring, or of a queue that has failed. The caller must hold mu.
func (cq *CQ) pollProvider(wc []WC) (int, error) {
	if cq.failed != nil && !cq.mayHoldCompletions() {
		return 0, cq.failed
	}
	n, err := cq.ib.Poll(castWC(wc))
	if n > 0 {
		return n, nil
	}
	if err != nil {
		return 0, cq.fail("poll", err)
	}
	if len(wc) > 0 {
		return 0, cq.failed
	}
	return 0, nil
}

// handleFailures notes the queue pairs whose completions have failed.
func (cq *CQ) handleFailures(wc []WC) {
	for i := range wc {
		if wc[i].Status != StatusSuccess {
			cq.ctx.requestFailed(wc[i].QPN)
		}
	}
}

// mayHoldCompletions reports whether a queue that has failed may still hold completions: because the device was lost. The caller
// must hold mu.
func (cq *CQ) mayHoldCompletions() bool {
	e, ok := cq.failed.(*Error)
	return ok && e.Kind == ErrDeviceLost
}
