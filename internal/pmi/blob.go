package pmi

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// MaxBlob is the maximum length of a blob in bytes. ibrun stores at most half a megabyte of blobs for each rank.
const MaxBlob = 16 << 20

// PutBlob stores up to [MaxBlob] bytes under key, and under key-1, key-2, ... if one value is too small.
func (c *Client) PutBlob(key string, blob []byte) error {
	if len(blob) > MaxBlob {
		return fmt.Errorf("pmi: a blob of %d bytes; the limit is %d", len(blob), MaxBlob)
	}
	rest := append(binary.BigEndian.AppendUint32(nil, uint32(len(blob))), blob...)
	for i := 0; len(rest) > 0; i++ {
		n := min(len(rest), c.pieceBytes())
		if err := c.Put(pieceKey(key, i), hex.EncodeToString(rest[:n])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// GetBlob returns the bytes that PutBlob stored under key, or [ErrNotFound].
func (c *Client) GetBlob(key string) ([]byte, error) {
	var blob []byte
	for i := 0; ; i++ {
		value, err := c.Get(pieceKey(key, i))
		if err != nil {
			return nil, err
		}
		before := len(blob)
		if blob, err = hex.AppendDecode(blob, []byte(value)); err != nil {
			return nil, fmt.Errorf("pmi: the value of %s is not a blob: %w", key, err)
		}
		if len(blob) < 4 || len(blob) == before {
			return nil, fmt.Errorf("pmi: the value of %s is not a blob: piece %d has %d digits", key, i, len(value))
		}
		want := 4 + int64(binary.BigEndian.Uint32(blob))
		if want > 4+MaxBlob || int64(len(blob)) > want {
			return nil, fmt.Errorf("pmi: the value of %s is not a blob: it has %d bytes instead of %d", key, len(blob)-4, want-4)
		}
		if int64(len(blob)) == want {
			return blob[4:], nil
		}
	}
}

func pieceKey(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + "-" + strconv.Itoa(i)
}

// pieceBytes returns how many bytes of a blob fit one value, for the longest key.
func (c *Client) pieceBytes() int {
	room := maxCommand - len(encode("put", "kvsname", c.kvs, "key", "", "value", "")) - c.maxKey
	return min(room, c.maxValue) / 2
}
