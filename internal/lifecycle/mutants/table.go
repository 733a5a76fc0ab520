package main

// A mutant is one planted bug: in file, the text old, which must occur there
// exactly once, becomes new.
type mutant struct{ name, file, old, new string }

var table = []mutant{
	{
		"any start's success counts", "step.go",
		"case Started:\n\t\treturn oneOf(ev.Gen, s.Trying)", "case Started:\n\t\treturn s.Trying != 0",
	},
	{
		"an old exit ends the new generation", "step.go",
		"case Exited:\n\t\treturn oneOf(ev.Gen, s.Serving)", "case Exited:\n\t\treturn s.Serving != 0",
	},
	{
		"an old strike counts", "step.go",
		"case Struck:\n\t\treturn oneOf(ev.Gen, s.Serving)", "case Struck:\n\t\treturn s.Serving != 0",
	},
	{
		"an old timer fires", "step.go",
		"case RetryDue:\n\t\treturn oneOf(ev.Gen, s.Gen) && s.RetryArmed()", "case RetryDue:\n\t\treturn s.RetryArmed()",
	},
	{
		"a timer fires that was disarmed", "step.go",
		"case RetryDue:\n\t\treturn oneOf(ev.Gen, s.Gen) && s.RetryArmed()", "case RetryDue:\n\t\treturn oneOf(ev.Gen, s.Gen)",
	},
	{
		"a late listing proves health", "step.go",
		"!ev.List && oneOf(ev.Gen, s.LastLost)", "oneOf(ev.Gen, s.LastLost)",
	},
	{
		"a timer stays armed", "step.go",
		"if old.RetryArmed() && !t.s.RetryArmed() {", "if false {",
	},
	{
		"the proof's timer stays armed", "step.go",
		"if old.StableArmed() && !t.s.StableArmed() {", "if false {",
	},
	{
		"no room is made without overlap", "step.go",
		"if t.s.Next == NextSlotFree && t.s.Serving != 0 && !t.s.Overlap {", "if false {",
	},
	{
		"break before make", "step.go",
		"t.s.Serving != 0 && !t.s.Overlap {", "t.s.Serving != 0 {",
	},
	{
		"a start before there is room", "step.go",
		"if t.s.Next == NextSlotFree && t.s.room() {", "if t.s.Next == NextSlotFree && t.s.Trying == 0 && t.s.Closing[1] == 0 {",
	},
	{
		"the generation is reused", "step.go",
		"t.s.Gen++\n", "",
	},
	{
		"a start with the old revision", "step.go",
		"Start{Gen: t.s.Gen, Spec: t.s.Spec}", "Start{Gen: t.s.Gen, Spec: t.s.ServingSpec}",
	},
	{
		"an aborted start is not ended", "step.go",
		"t.s.Trying = 0\n\t\tt.stop(gen, false)", "t.s.Trying = 0\n\t\t_ = gen",
	},
	{
		"strikes outlive their generation", "step.go",
		"t.s.ListStrikes, t.s.CallStrikes = 0, 0\n", "",
	},
	{
		"the same Want twice restarts", "rules.go",
		"case ev.Spec != old.Spec:", "case true:",
	},
	{
		"disable waits for the close", "rules.go",
		"t.abort()\n\tif t.s.Serving != 0 {", "t.abort()\n\tif t.s.Serving != 0 && t.s.Closing[0] != 0 {",
	},
	{
		"disable leaves the retry due", "rules.go",
		"t.forget()\n\tt.await(NoNext)\n\tt.abort()", "t.forget()\n\tt.abort()",
	},
	{
		"disable forgets the running start", "rules.go",
		"t.await(NoNext)\n\tt.abort()\n", "t.await(NoNext)\n",
	},
	{
		"what was ready once looks ready for ever", "rules.go",
		"t.s.WasReady = false\n", "",
	},
	{
		"a new revision inherits the losses", "rules.go",
		"func (t *transition) respec() {\n\tt.forget()\n", "func (t *transition) respec() {\n",
	},
	{
		"an outdated start goes on", "rules.go",
		"t.forget()\n\tt.abort()\n\tswitch {", "t.forget()\n\tswitch {",
	},
	{
		"a config that went back is replaced", "rules.go",
		"case t.s.Serving != 0 && t.s.ServingSpec == t.s.Spec:\n\t\tt.await", "case false:\n\t\tt.await",
	},
	{
		"a call shortens any wait", "rules.go",
		"t.s.Next == NextStopped && t.s.RetryArmed() &&", "t.s.Next == NextStopped &&",
	},
	{
		"a call shortens a backoff", "rules.go",
		"t.s.Next == NextStopped && t.s.RetryArmed() &&", "t.s.RetryArmed() &&",
	},
	{
		"a call overrules the server's wish", "rules.go",
		"t.s.RetryArmed() && !t.s.NoEarlyWake && !ev.TooSoon", "t.s.RetryArmed() && !ev.TooSoon",
	},
	{
		"calls wake the probe all the time", "rules.go",
		"!t.s.NoEarlyWake && !ev.TooSoon", "!t.s.NoEarlyWake",
	},
	{
		"an operator wakes what is disabled", "rules.go",
		"case !t.s.Want:\n\tcase ev.Operator:", "case ev.Operator:",
	},
	{
		"the predecessor is not ended", "rules.go",
		"t.s.Trying, t.s.Brought = 0, false\n\tif t.s.Serving != 0 {\n\t\tt.detach(true)\n\t}", "t.s.Trying, t.s.Brought = 0, false",
	},
	{
		"the predecessor is cut off", "rules.go",
		"t.s.Trying, t.s.Brought = 0, false\n\tif t.s.Serving != 0 {\n\t\tt.detach(true)", "t.s.Trying, t.s.Brought = 0, false\n\tif t.s.Serving != 0 {\n\t\tt.detach(false)",
	},
	{
		"a handshake resets the attempts", "rules.go",
		"t.s.WasReady = true\n", "t.s.WasReady, t.s.Attempt = true, 0\n",
	},
	{
		"a failed successor ends the old generation", "rules.go",
		"func (t *transition) failed(e end) {\n\tdefer func() { t.s.Brought = false }()\n\tt.s.Trying = 0\n", "func (t *transition) failed(e end) {\n\tdefer func() { t.s.Brought = false }()\n\tt.s.Trying = 0\n\tif t.s.Serving != 0 {\n\t\tt.detach(true)\n\t}\n",
	},
	{
		"a failed successor is forgotten", "rules.go",
		"if t.s.Serving != 0 && t.s.ServingSpec == t.s.Spec {\n\t\treturn", "if t.s.Serving != 0 {\n\t\treturn",
	},
	{
		"the old generation's end disturbs the successor", "rules.go",
		"t.detach(drain)\n\tif t.succession() {\n\t\treturn\n\t}", "t.detach(drain)",
	},
	{
		"calls know no pace", "rules.go",
		"t.s.ResumeIdle = true", "t.await(NextCall)",
	},
	{
		"a generation follows that restart forbids", "rules.go",
		"if !follows && t.s.Lazy {", "if false {",
	},
	{
		"a wait ends in a generation that nobody asked for", "step.go",
		"if t.s.ResumeIdle {\n\t\tt.await(NextCall)\n\t\treturn\n\t}\n", "",
	},
	{
		"a server that is not lazy waits for a call", "rules.go",
		"case !t.s.Lazy:\n\t\tt.s.ResumeIdle = false\n", "",
	},
	{
		"losses are not counted", "rules.go",
		"t.s.Attempt++\n", "",
	},
	{
		"a missing token is a loss", "rules.go",
		"if !e.verdict.ofCredential() {\n\t\tt.s.Attempt++\n\t}", "t.s.Attempt++",
	},
	{
		"a refused login may be proven late", "rules.go",
		"if !e.verdict.ofCredential() {\n\t\tt.s.LastLost = gen\n\t}", "t.s.LastLost = gen",
	},
	{
		"a dead login is probed", "rules.go",
		"t.s.LoginOnly = true", "t.arm(t.p.loginArm(e), e)",
	},
	{
		"a call asks for a login that lives", "policy.go",
		" || e.verdict == NeedToken || e.verdict == AwaitToken", " || e.verdict == AwaitToken",
	},
	{
		"a token that is awaited is a slow retry", "rules.go",
		"t.s.Unready = true\n\t\tt.arm(t.p.tokenArm(e), e)", "t.s.Unready = true\n\t\tt.arm(t.p.slowArm(e), e)",
	},
	{
		"a missing login is retried", "rules.go",
		"case e.verdict == NeedAuth, e.verdict == NeedToken:", "case false:",
	},
	{
		"a missing command is never probed", "rules.go",
		"t.halt(Missing)\n\t\tt.arm(t.p.slowArm(e), e)", "t.halt(Missing)",
	},
	{
		"the budget gives up for ever", "rules.go",
		"t.halt(Budget)\n\t\tt.arm(t.p.slowArm(e), e)", "t.halt(Budget)",
	},
	{
		"one retry too many", "policy.go",
		"e.down >= p.FastFor", "e.down > p.FastFor",
	},
	{
		"the fast time never ends", "policy.go",
		"e.down >= p.FastFor", "false",
	},
	{
		"full jitter", "policy.go",
		"Jitter: true, Least: d / 2}", "Jitter: true}",
	},
	{
		"sessions are replaced at once for ever", "policy.go",
		"if attempt <= p.Sessions {", "if true {",
	},
	{
		"lost sessions begin with a long wait", "policy.go",
		"attempt -= p.Sessions - 1", "attempt += p.Sessions",
	},
	{
		"what is back overrules the server's wish", "step.go",
		"s.RetryArmed() && !s.NoEarlyWake", "s.RetryArmed()",
	},
	{
		"another attempt's port is back", "step.go",
		"case Returned:\n\t\treturn oneOf(ev.Gen, s.Gen) &&", "case Returned:\n\t\treturn",
	},
	{
		"what comes and goes is always heeded", "rules.go",
		"t.s.Returns++\n", "",
	},
	{
		"proven health keeps the returns", "rules.go",
		"t.s.Attempt, t.s.Returns = 0, 0\n", "t.s.Attempt = 0\n",
	},
	{
		"what was brought forward in vain lengthens the wait", "rules.go",
		"t.p.fastArm(t.s.Attempt-t.s.Returns, e)", "t.p.fastArm(t.s.Attempt, e)",
	},
	{
		"the wait that was cut is forgotten", "step.go",
		"t.s.Brought && !t.s.NoEarlyWake, t.p", "false, t.p",
	},
	{
		"a failed start stays brought forward", "rules.go",
		"defer func() { t.s.Brought = false }()\n", "",
	},
	{
		"an upgrade is a misconfiguration", "rules.go",
		"e.verdict == NotThere && (!t.s.WasReady || t.p.used(e)):", "e.verdict == NotThere:",
	},
	{
		"one counter for both kinds of strike", "rules.go",
		"if ev.List {\n\t\tn = &t.s.ListStrikes\n\t}\n", "",
	},
	{
		"one strike too many", "rules.go",
		"case *n >= t.p.Strikes:", "case *n > t.p.Strikes:",
	},
	{
		"a strike does not restart the proof", "rules.go",
		"case !t.s.Proven:\n\t\tt.armStable()", "case false:\n\t\tt.armStable()",
	},
	{
		"a good call clears a failing list", "rules.go",
		"t.s.CallStrikes = 0\n\t\tt.prove()", "t.s.CallStrikes, t.s.ListStrikes = 0, 0\n\t\tt.prove()",
	},
	{
		"a listing proves health", "rules.go",
		"t.s.ListStrikes = 0\n", "t.s.ListStrikes = 0\n\t\tt.prove()\n",
	},
	{
		"the old generation speaks for the new revision", "rules.go",
		"if t.s.ServingSpec == t.s.Spec {\n\t\tt.s.Attempt, t.s.Returns = 0, 0", "if true {\n\t\tt.s.Attempt, t.s.Returns = 0, 0",
	},
	{
		"a late answer overrules the start limit", "rules.go",
		"(t.s.Next == NextTimer || budget) && !t.s.NoEarlyWake", "t.s.Next == NextTimer || budget",
	},
	{
		"an overtaken answer is lost", "rules.go",
		"if (t.s.Next == NextTimer || budget) && !t.s.NoEarlyWake {\n\t\tt.resume()\n\t}", "_ = budget",
	},
	{
		"a busy server idles", "rules.go",
		"if !t.s.Lazy {\n\t\treturn\n\t}", "",
	},
	{
		"the wrong close is taken", "rules.go",
		"if gen == c[0] {\n\t\tc[0] = c[1]\n\t}", "c[0] = c[1]",
	},
	{
		"never means always", "policy.go",
		"case Never:\n\t\treturn false", "case Never:\n\t\treturn true",
	},
	{
		"a clean end is a failure", "policy.go",
		"return v != CleanEnd", "return true",
	},
	{
		"the delay does not double", "policy.go",
		"d *= 2", "d += p.FirstDelay",
	},
	{
		"the delay has no end", "policy.go",
		"if d > p.MaxDelay/2 {\n\t\t\treturn p.MaxDelay", "if d > p.MaxDelay/2 {\n\t\t\treturn 2 * d",
	},
	{
		"the start limit is ignored", "policy.go",
		"n := max(attempt, 1+p.excess(e))", "n := attempt",
	},
	{
		"lost sessions know no limit", "policy.go",
		"if p.excess(e) == 0 {\n\t\treturn Arm{Jitter: true}\n\t}", "if true {\n\t\treturn Arm{Jitter: true}\n\t}",
	},
	{
		"the server's wish is ignored", "policy.go",
		"if e.after <= 0 {\n\t\treturn a\n\t}", "if true {\n\t\treturn a\n\t}",
	},
	{
		"the server's wish shortens the delay", "policy.go",
		"Arm{After: max(a.After, w)}", "Arm{After: w}",
	},
	{
		"overlap has no limit", "seen.go",
		"limit = 2", "limit = 3",
	},
	{
		"disabled looks failed", "seen.go",
		"case !s.Want:\n\t\treturn Off", "case !s.Want:\n\t\treturn Stopped",
	},
}
