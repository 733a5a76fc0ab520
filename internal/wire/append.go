package wire

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
