//go:build race

package coll

// shmSeeds is smaller with the race detector: a list takes ten times as long. The two have the least and the best memory.
const shmSeeds = 2
