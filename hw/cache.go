package hw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// cacheKind distinguishes the caches of one PU.
type cacheKind struct {
	level int
	kind  string
}

// readCaches reads the caches of a PU that no earlier PU has described. The caches of a hardware thread are those of its
// core.
func (r *cpuReader) readCaches(pu *PU, dir string, hasCache map[int]map[cacheKind]bool) {
	if r.onlyPUs && pu.L3 >= 0 || pu.Core != pu.ID && len(hasCache[pu.ID]) == len(hasCache[pu.Core]) && len(hasCache[pu.ID]) > 0 {
		return
	}
	for index := 0; r.err == nil && index < 10; index++ {
		at := fmt.Sprintf("%scache/index%d/", dir, index)
		level := r.readInt(at+"level", 0)
		if level == 0 && index >= 3 {
			return // some kernels skip an index below 3
		}
		if level == 0 || r.onlyPUs && level != 3 {
			continue
		}
		key := cacheKind{level, "Unified"}
		if !r.onlyPUs {
			key.kind = cmp.Or(parseFile(&r.reader, at+"type", parseWord), key.kind)
		}
		if !hasCache[pu.ID][key] {
			r.readCache(pu, at, key, hasCache)
		}
	}
}

// readCache reads one cache and the PUs that share it.
func (r *cpuReader) readCache(pu *PU, at string, key cacheKind, hasCache map[int]map[cacheKind]bool) {
	sharing, found := r.readSet(at, "shared_cpu_map", "shared_cpu_list")
	if found && len(sharing) == 0 { // a cache of no PU: Itanium firmware describes the cache of a core so
		for _, p := range r.puByID {
			if p.Core == pu.Core {
				sharing = append(sharing, p.ID)
			}
		}
	}
	pus := r.claimGroup(pu, "L"+strconv.Itoa(key.level)+" cache", sharing, func(p *PU) bool { return hasCache[p.ID][key] })
	for _, id := range pus {
		if hasCache[id] == nil {
			hasCache[id] = map[cacheKind]bool{}
		}
		hasCache[id][key] = true
		if key.level == 3 && key.kind != "Instruction" {
			r.puByID[id].L3 = pus[0]
		}
	}
	if r.onlyPUs {
		return
	}
	r.failFast = false // Read does not fail if a size is unknown
	defer func() { r.failFast = true }()
	c := Cache{Level: key.level, Type: key.kind, Size: parseFile(&r.reader, at+"size", parseSize), PUs: r.addGroup(pus)}
	c.Line = r.readInt(at+"coherency_line_size", 0)
	c.Ways = max(0, r.readInt(at+"ways_of_associativity", 0))
	r.top.Caches = append(r.top.Caches, c)
}

// parseSize parses a size such as "32K\n" and returns bytes.
func parseSize(text string) (uint64, error) {
	if len(text) < 2 || text[len(text)-2:] != "K\n" {
		return 0, malformed("size", text)
	}
	n, err := strconv.ParseUint(text[:len(text)-2], 10, 40)
	if err != nil {
		return 0, malformed("size", text)
	}
	return n << 10, nil
}

// cacheOrder returns the rank of a cache among those of one level: unified, data, instruction.
func cacheOrder(c Cache) int { return slices.Index([]string{"Unified", "Data", "Instruction"}, c.Type) }
