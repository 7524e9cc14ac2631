// Package auth computes and verifies every message authentication code (MAC) of the project. No other package uses an
// HMAC directly.
//
// The processes of a job share a [Key] of 32 bytes. ibrun passes it to the ranks, and they authenticate what they send to
// each other with it:
//
//	mac := key.MAC("label", message)
//	ok := key.Verify(mac, "label", message)
//
// The nodes of a job share a [Secret], the content of the file that the user names with --secret-file. Keys for single
// purposes are derived from it:
//
//	secret, err := auth.ReadSecret(name)
//	key, err := secret.Derive(salt, "purpose")
//
// A [Transcript] authenticates a challenge-response handshake: it holds the messages that were sent. Both sides prove with a
// MAC over a label and all these messages that they know the secret and saw the same bytes. After it, [Key.FrameMAC]
// authenticates a stream of numbered frames.
//
// All MACs are HMAC-SHA-256. The label and the parts are concatenated without separators, because that is the wire format of
// the protocols in use. Therefore a protocol must choose labels so that none is a prefix of another, or parts of fixed
// length. Verification takes the same time whether or not the MAC matches.
package auth
