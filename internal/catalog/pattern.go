package catalog

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isPattern reports whether a text is an ECMAScript regular expression under the
// flag u, with which schema compilers read patterns (ECMA-262, "Patterns"). A
// pattern that is not makes them refuse the whole schema. What only newer
// engines take (modifiers, groups of one name in two alternatives) is refused.
func isPattern(text string) bool {
	if len(text) > maxPattern || !utf8.ValidString(text) {
		return false
	}
	p := patternReader{rest: text}
	p.alternatives(0)
	if p.bad || p.rest != "" || p.backref > p.groups {
		return false
	}
	for _, name := range p.refs {
		if !slices.Contains(p.names, name) {
			return false
		}
	}
	return true
}

// maxPattern is the longest pattern that is looked at, and maxGroups the
// deepest nesting of its groups; engines give up somewhere, too.
const (
	maxPattern = 10_000
	maxGroups  = 100
)

// A patternReader walks over a pattern. After the first thing that is wrong it
// is bad, and everything else stops.
type patternReader struct {
	rest    string
	bad     bool
	groups  int // capturing groups
	backref int // the highest number that \1 to \9… names
	names   []string
	refs    []string // names that \k names
}

func (p *patternReader) fail() { p.bad, p.rest = true, "" }

// next takes the next character; 0 at the end.
func (p *patternReader) next() rune {
	if p.rest == "" {
		return 0
	}
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// take takes a text if it comes next.
func (p *patternReader) take(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

// alternatives reads up to the end, or to the closing parenthesis.
func (p *patternReader) alternatives(depth int) {
	if depth > maxGroups {
		p.fail()
	}
	for p.rest != "" && p.rest[0] != ')' {
		if !p.take("|") && p.term(depth) {
			p.quantifier()
		}
	}
}

// term reads one term, and reports whether it can be repeated.
func (p *patternReader) term(depth int) (repeatable bool) {
	switch r := p.next(); r {
	case '^', '$':
		return false
	case '(':
		return p.group(depth)
	case '[':
		p.class()
	case '\\':
		if p.take("b") || p.take("B") {
			return false
		}
		p.escape(false)
	case '*', '+', '?', '{', '}', ']':
		p.fail()
	}
	return true
}

func (p *patternReader) group(depth int) (repeatable bool) {
	repeatable = true
	switch {
	case p.take("?:"):
	case p.take("?="), p.take("?!"), p.take("?<="), p.take("?<!"):
		repeatable = false
	case p.take("?<"):
		name := p.name()
		if slices.Contains(p.names, name) {
			p.fail()
		}
		p.names = append(p.names, name)
		p.groups++
	case p.take("?"):
		p.fail()
	default:
		p.groups++
	}
	p.alternatives(depth + 1)
	if !p.take(")") {
		p.fail()
	}
	return repeatable
}

// name reads the name of a group and the bracket behind it.
func (p *patternReader) name() string {
	name, rest, closed := strings.Cut(p.rest, ">")
	wrong := func(r rune) bool { return r != '$' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	if !closed || name == "" || strings.ContainsFunc(name, wrong) || name[0] >= '0' && name[0] <= '9' {
		p.fail()
		return ""
	}
	p.rest = rest
	return name
}

func (p *patternReader) quantifier() {
	switch {
	case p.take("*"), p.take("+"), p.take("?"):
	case p.take("{"):
		least, ok := p.count()
		most := least
		if ok && p.take(",") && !strings.HasPrefix(p.rest, "}") {
			most, ok = p.count()
		}
		if !ok || !p.take("}") || len(least) > len(most) || len(least) == len(most) && least > most {
			p.fail()
		}
	default:
		return
	}
	p.take("?")
}

// count reads a number, of any length, without its leading zeros.
func (p *patternReader) count() (digits string, ok bool) {
	rest := strings.TrimLeft(p.rest, "0123456789")
	digits = p.rest[:len(p.rest)-len(rest)]
	p.rest = rest
	return strings.TrimLeft(digits, "0"), digits != ""
}

// class reads a character class behind its opening bracket.
func (p *patternReader) class() {
	p.take("^")
	for !p.take("]") {
		first, ranges := p.classAtom()
		if p.bad {
			return
		}
		if len(p.rest) < 2 || p.rest[0] != '-' || p.rest[1] == ']' {
			continue
		}
		p.take("-")
		last, also := p.classAtom()
		if !ranges || !also || first > last {
			p.fail()
		}
	}
}

// classAtom reads one character of a class, or an escape that stands for many
// and cannot be the end of a range.
func (p *patternReader) classAtom() (r rune, one bool) {
	r = p.next()
	if r == '\\' {
		return p.escape(true)
	}
	if r == 0 && p.rest == "" {
		p.fail() // the class has no end
	}
	return r, true
}

// escape reads what follows a backslash; one tells that it is the character r.
func (p *patternReader) escape(inClass bool) (r rune, one bool) {
	switch c := p.next(); {
	case strings.ContainsRune("dDsSwW", c) && c != 0:
		return 0, false
	case c == 'p', c == 'P':
		p.property()
		return 0, false
	case c == 'k' && !inClass && p.take("<"):
		p.refs = append(p.refs, p.name())
		return 0, false
	case c == '0' && !digitNext(p.rest):
		return 0, true
	case c >= '1' && c <= '9' && !inClass:
		digits, _ := p.count()
		n, err := strconv.Atoi(string(c) + digits)
		if err != nil {
			p.fail()
		}
		p.backref = max(p.backref, n)
		return 0, false
	case c == 'c' && p.rest != "" && unicode.IsLetter(rune(p.rest[0])) && p.rest[0] < utf8.RuneSelf:
		return p.next() % 32, true
	case c == 'x':
		return p.hex(2)
	case c == 'u' && p.take("{"):
		digits, rest, closed := strings.Cut(p.rest, "}")
		n, err := strconv.ParseUint(digits, 16, 32)
		if p.rest = rest; !closed || err != nil || n > unicode.MaxRune {
			p.fail()
		}
		return rune(n), true
	case c == 'u':
		return p.hex(4)
	case strings.ContainsRune("tnvfr", c) && c != 0:
		return map[rune]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r'}[c], true
	case c == 'b' && inClass:
		return '\b', true
	case c == '-' && inClass, strings.ContainsRune(`^$\.*+?()[]{}|/`, c) && c != 0:
		return c, true
	}
	p.fail()
	return 0, false
}

func digitNext(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// hex reads n hexadecimal digits; two escaped halves of a pair are taken as
// two characters, which decides nothing here but the order of a range.
func (p *patternReader) hex(n int) (rune, bool) {
	if len(p.rest) < n {
		p.fail()
		return 0, false
	}
	v, err := strconv.ParseUint(p.rest[:n], 16, 32)
	if p.rest = p.rest[n:]; err != nil {
		p.fail()
	}
	return rune(v), true
}

// property reads {Name} or {Name=Value} behind \p.
func (p *patternReader) property() {
	body, rest, closed := strings.Cut(p.rest, "}")
	if p.rest = rest; !closed || !strings.HasPrefix(body, "{") || !isProperty(body[1:]) {
		p.fail()
	}
}

// isProperty knows the properties of Unicode that engines of all ages know.
func isProperty(text string) bool {
	name, value, pair := strings.Cut(text, "=")
	switch {
	case !pair:
		return slices.Contains(categories, name) || slices.Contains(binaryProperties, name)
	case name == "General_Category" || name == "gc":
		return slices.Contains(categories, value)
	case name == "Script" || name == "sc" || name == "Script_Extensions" || name == "scx":
		return unicode.Scripts[value] != nil
	default:
		return false
	}
}

var categories = strings.Fields(`
	L Letter LC Cased_Letter Lu Uppercase_Letter Ll Lowercase_Letter Lt Titlecase_Letter Lm Modifier_Letter Lo Other_Letter
	M Mark Combining_Mark Mn Nonspacing_Mark Mc Spacing_Mark Me Enclosing_Mark
	N Number Nd Decimal_Number digit Nl Letter_Number No Other_Number
	P Punctuation punct Pc Connector_Punctuation Pd Dash_Punctuation Ps Open_Punctuation Pe Close_Punctuation
	Pi Initial_Punctuation Pf Final_Punctuation Po Other_Punctuation
	S Symbol Sm Math_Symbol Sc Currency_Symbol Sk Modifier_Symbol So Other_Symbol
	Z Separator Zs Space_Separator Zl Line_Separator Zp Paragraph_Separator
	C Other Cc Control cntrl Cf Format Cs Surrogate Co Private_Use Cn Unassigned`)

var binaryProperties = strings.Fields(`
	ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Cased Case_Ignorable CI Dash Default_Ignorable_Code_Point DI
	Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation EPres
	Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit Hex ID_Continue IDC
	ID_Start IDS Ideographic Ideo Lowercase Lower Math Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn
	Pattern_White_Space Pat_WS Quotation_Mark QMark Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted SD
	Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS White_Space space
	XID_Continue XIDC XID_Start XIDS`)
