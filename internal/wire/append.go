package wire

import "bytes"

// AppendRequest appends a request. Params are written as they are; nil leaves
// them out.
func AppendRequest(dst []byte, id int64, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = AppendInt(dst, id)
	dst = append(dst, `,"method":`...)
	return appendParams(AppendString(dst, method), params)
}

// AppendNotification appends a notification. Nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendParams(AppendString(dst, method), params)
}

func appendParams(dst, params []byte) []byte {
	if params != nil {
		dst = Append(append(dst, `,"params":`...), params)
	}
	return append(dst, '}')
}

// AppendResult appends the answer to the request with this raw id. A nil
// result is written as {}, MCP's empty result.
func AppendResult(dst, rawID, result []byte) []byte {
	dst = append(appendID(dst, rawID), `,"result":`...)
	if result == nil {
		return append(dst, "{}}"...)
	}
	return append(Append(dst, result), '}')
}

// AppendError appends an error answer. Nil data is left out, and a nil id is
// written as null: the answer to what had none or could not be read.
func AppendError(dst, rawID []byte, code int64, message string, data []byte) []byte {
	dst = append(appendID(dst, rawID), `,"error":{"code":`...)
	dst = append(AppendInt(dst, code), `,"message":`...)
	dst = AppendString(dst, message)
	if data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, "}}"...)
}

// AppendRawError appends an error answer whose error object is passed on
// verbatim.
func AppendRawError(dst, rawID, rawErr []byte) []byte {
	dst = append(appendID(dst, rawID), `,"error":`...)
	return append(append(dst, rawErr...), '}')
}

func appendID(dst, rawID []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(rawID) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, rawID...)
}

// DecodeError reads the code and the message of a raw error object, as far as
// they are there.
func DecodeError(raw []byte) (code int64, message string) {
	for key, val := range Members(raw) {
		switch key {
		case "code":
			code, _ = Int(val)
		case "message":
			message, _ = Text(val)
		}
	}
	return code, message
}

// noMessage stands for the message of an error that came without one.
const noMessage = "the error came without a message"

// StrictError returns an error object that JSON-RPC allows, and what is in it: raw
// itself where it is one. Clients that check what they read wait for ever on an
// answer that they refuse. Codes must fit into 32 bits, which is all that many
// clients have for them. What came is kept as the data.
func StrictError(raw []byte) (code int64, message string, strict []byte) {
	if IsObject(raw) {
		values := [3][]byte{}
		duplicate := Pick(raw, errorMembers, values[:])
		code, whole := Int(values[0])
		message, said := Text(values[1])
		whole = whole && code == int64(int32(code))
		if whole && said && duplicate == "" && isPlainInt(values[0]) {
			return code, message, raw
		}
		if !whole {
			code = codeInternal
		}
		if !said {
			message = noMessage
		}
		return code, message, errorObject(code, message, raw)
	}
	message, said := Text(raw)
	if !said || message == "" {
		message = noMessage
	}
	return codeInternal, message, errorObject(codeInternal, message, raw)
}

var errorMembers = [][]byte{[]byte("code"), []byte("message"), []byte("data")}

// codeInternal is JSON-RPC's code for an error that has no code of its own.
const codeInternal = -32603

// isPlainInt reports whether a whole number is written without point and exponent.
func isPlainInt(raw []byte) bool { return !bytes.ContainsAny(raw, ".eE") }

func errorObject(code int64, message string, data []byte) []byte {
	b := AppendInt([]byte(`{"code":`), code)
	b = AppendString(append(b, `,"message":`...), message)
	return append(append(append(b, `,"data":`...), data...), '}')
}
