package coll

// Ranks that call different collectives would copy wrong data or wait for ever. So each rank publishes a description of its call
// wherever others read anyway, and they compare it with their own:
//
//   - Beside the word of its slot, in the same cache line. A rank that waits for the word compares. The description changes only
//     when the slot is reused, by which time all readers have ended the step.
//   - In the counter of arrivals, to which each rank adds a hash of its description above the 16 bits that count. The last rank
//     finds whether all have added the same. Only then it reads the descriptions, which each rank has also stored beside the word
//     for its ended steps. All other ranks wait for the last one meanwhile.
//
// A rank that reads nothing of another one, such as the root of a Bcast, finds nothing. So a description contains a hash of
// all earlier ones of this rank: the next collective in which the ranks read finds the difference.

const (
	// CallBits is the number of bits that describe a call. The bits above them are a hash of the earlier calls of the rank.
	CallBits   = 52
	callOffset = 8  // from the word of a slot to the description of the call
	countBits  = 16 // of the counter of arrivals; there are fewer ranks than 1<<countBits
	mixer      = 0x9e3779b97f4a7c15
)

// Begin is called before each collective. call describes it in CallBits bits, the same at all ranks.
func (f *shmSteps) Begin(call uint64) {
	f.call = f.history>>CallBits<<CallBits | call
	f.history = (f.history ^ call) * mixer
}

// arrivedCall returns the words beside endedWord: for the description of the call, and the step, of the rank's last arrival.
func (f *shmSteps) arrivedCall(rank int) (call, step *uint64) {
	at := line + rank*line + callOffset
	return word(f.Mem, at), word(f.Mem, at+8)
}

// compareArrived returns the first difference between the arrivals of other ranks and this one, which is the last.
func (f *shmSteps) compareArrived() error {
	for r := range f.Size {
		call, step := f.arrivedCall(r)
		if r != f.Rank && (*call != f.call || *step != f.step) {
			return f.Sync.Differ(r, f.call, *call)
		}
	}
	return f.Sync.Differ(f.Rank, f.call, f.call) // the memory has been overwritten
}

// arrival returns what this rank adds to the counter of arrivals: 1, and a hash of its call and its step in the upper bits. The
// sums of different ranks' hashes must differ, so the hash is not linear.
func (f *shmSteps) arrival() uint64 {
	h := (f.call ^ f.step) * mixer
	h = (h ^ h>>29) * mixer
	return h>>countBits<<countBits | 1
}
