// Schemas in the shapes that the tools of public servers have, each with arguments
// that are right, and how many boxes for JSON its form has. They are our own: what was
// studied are the generators behind them (pydantic, zod, go-sdk, Microsoft Graph,
// Notion, GitHub, Stripe, Sentry, Playwright, PagerDuty) and what clients got wrong.
const obj = (properties, required = [], more = {}) => ({type: 'object', properties, required, ...more});
const str = {type: 'string'}, num = {type: 'number'}, int = {type: 'integer'}, bool = {type: 'boolean'};
const list = (items, more = {}) => ({type: 'array', items, ...more});
const opt = (s) => ({anyOf: [s, {type: 'null'}], default: null});
const draft7 = 'http://json-schema.org/draft-07/schema#', draft2020 = 'https://json-schema.org/draft/2020-12/schema';

export const schemas = [
  // Plain ones.
  ['nothing', {type: 'object'}, {}, 1],
  ['no properties', {type: 'object', properties: {}, additionalProperties: false}, {}, 0],
  ['a query', obj({query: str}, ['query']), {query: 'select 1'}, 0],
  ['every plain type', obj({s: str, n: num, i: int, b: bool, z: {type: 'null'}}, ['s', 'n', 'i', 'b', 'z']), {s: 'x', n: 1.5, i: -3, b: false, z: null}, 0],
  ['empty text', obj({text: str, other: str}, ['text']), {text: ' ', other: '"quoted" \\ back'}, 0],
  ['lines and signs', obj({text: str}, ['text']), {text: 'one\ntwo\ttab ü 漢 😀 \u2028'}, 0],
  ['bounds', obj({page: {type: 'integer', minimum: 1, maximum: 100, default: 1}, rate: {type: 'number', exclusiveMinimum: 0, multipleOf: 0.5}}, ['page']), {page: 7, rate: 2.5}, 0],
  ['patterns', obj({sha: {type: 'string', pattern: '^[0-9a-f]{7,40}$'}, name: {type: 'string', minLength: 2, maxLength: 5}}, ['sha']), {sha: '0a1b2c3', name: 'abcd'}, 0],
  ['formats', obj({day: {type: 'string', format: 'date'}, at: {type: 'string', format: 'date-time'}, mail: {type: 'string', format: 'email'}, link: {type: 'string', format: 'uri'}, id: {type: 'string', format: 'uuid'}}, ['day']),
    {day: '2026-02-28', at: '2026-02-28T10:00:00Z', mail: 'a@b.example', link: 'https://a.example/x?y=1', id: '5b1f1c0e-8a39-4f6e-9f0e-2a3c4d5e6f70'}, 0],
  ['names that are odd', obj({'a.b': str, 'a b': str, '$top': int, '@odata.type': str, '': str, '0': str}, []), {'0': 'zero', 'a.b': '1', 'a b': '2', '$top': 3, '@odata.type': 'x', '': 'empty'}, 0],
  // enum and const.
  ['enum', obj({state: {type: 'string', enum: ['open', 'closed', 'all']}}, ['state']), {state: 'closed'}, 0],
  ['enum of numbers and null', obj({n: {enum: [1, 2.5, null, 'x', false]}}, ['n']), {n: null}, 0],
  ['enum that may be null', obj({n: {type: ['string', 'null'], enum: ['a', null]}}, ['n']), {n: 'a'}, 0],
  ['enum of objects', obj({n: {enum: [{a: 1}, [1, 2]]}}, ['n']), {n: [1, 2]}, 0],
  ['enum with a length', obj({n: {type: 'string', minLength: 1, enum: ['a', 'b']}}, ['n']), {n: 'b'}, 0],
  ['const', obj({kind: {const: 'user'}, v: {type: 'integer', const: 2}}, ['kind', 'v']), {kind: 'user', v: 2}, 0],
  ['titles for values', obj({order: {oneOf: [{const: 'asc', title: 'Ascending'}, {const: 'desc', title: 'Descending'}]}}, ['order']), {order: 'desc'}, 0],
  // What may be null.
  ['pydantic Optional', obj({limit: {...opt(int), title: 'Limit'}, after: {...opt(str), title: 'After'}}, []), {limit: 20, after: null}, 0],
  ['two types', obj({id: {type: ['string', 'integer']}, none: {type: ['null', 'boolean']}}, ['id']), {id: 12, none: true}, 0],
  ['two types with bounds', obj({id: {type: ['string', 'integer'], minLength: 1, minimum: 0}}, ['id']), {id: 'a'}, 0],
  ['nullable of OpenAPI', obj({name: {type: 'string', nullable: true, example: 'x'}}, []), {name: 'n'}, 0],
  ['a default of another type', obj({team: {type: 'string', default: null}, n: {type: 'integer', default: 5}}, ['team', 'n']), {team: 't', n: 6}, 0],
  // Lists.
  ['list of texts', obj({labels: list(str, {minItems: 1, uniqueItems: true})}, ['labels']), {labels: ['bug', 'later']}, 0],
  ['empty list', obj({ids: list(int)}, ['ids']), {ids: []}, 0],
  ['list of objects', obj({files: list(obj({path: str, content: str}, ['path', 'content']))}, ['files']), {files: [{path: 'a', content: ''}, {path: 'b', content: 'x'}].map((f) => ({...f, content: f.content || '-'}))}, 0],
  ['list of lists', obj({rows: list(list(num))}, ['rows']), {rows: [[1, 2], [3]]}, 0],
  ['list of choices', obj({parts: list({anyOf: [str, int]})}, ['parts']), {parts: ['a', 1, 'b']}, 0],
  ['list of anything', obj({values: {type: 'array'}, more: list({}), yes: list(true)}, []), {values: [1, {a: [2]}], more: [1, 'x'], yes: [null]}, 5], // everline writes "items": {} where it is missing
  ['tuple of 2020-12', {...obj({point: {type: 'array', prefixItems: [num, num], items: false}}, ['point']), $schema: draft2020}, {point: [1, 2]}, 1],
  ['tuple of draft-07', {...obj({point: {type: 'array', items: [num, str], additionalItems: false}}, ['point']), $schema: draft7}, {point: [1, 'x']}, 1],
  ['contains', obj({l: {type: 'array', items: int, contains: {const: 5}}}, ['l']), {l: [4, 5]}, 1],
  // Objects.
  ['objects within', obj({where: obj({city: str, at: obj({lat: num, lon: num}, ['lat', 'lon'])}, ['at'])}, ['where']), {where: {city: 'Bonn', at: {lat: 50.7, lon: 7.1}}}, 0],
  ['deeper than a form', obj({a: obj({b: obj({c: obj({d: str})})})}), {a: {b: {c: {d: 'x'}}}}, 1],
  ['an object that is free', obj({meta: {type: 'object'}, open: {type: 'object', additionalProperties: true}}, ['meta']), {meta: {any: [1]}, open: {x: {}}}, 2],
  ['a map', obj({env: {type: 'object', additionalProperties: str}}, ['env']), {env: {A: '1', __proto__x: '2'}}, 1],
  ['members and a map', obj({labels: obj({a: str}, [], {additionalProperties: int})}, ['labels']), {labels: {a: 'x', b: 2}}, 1],
  ['patternProperties', obj({vars: {type: 'object', patternProperties: {'^[A-Z]+$': str}, additionalProperties: false}}, ['vars']), {vars: {HOME: '/'}}, 1],
  ['patternProperties at the root', {type: 'object', patternProperties: {'^x-': str}, properties: {a: int}}, {a: 1, 'x-b': 'c'}, 1],
  ['propertyNames', obj({a: int, b: int}, [], {propertyNames: {pattern: '^[a-z]$'}}), {a: 1, b: 2}, 0],
  ['a member that nobody describes', {type: 'object', properties: {a: str}, required: ['a', 'b']}, {a: 'x', b: {c: 1}}, 1],
  ['any value', obj({value: {}, described: {description: 'anything'}, yes: true}, ['value']), {value: 'text', described: [1], yes: {a: 1}}, 3],
  // References.
  ['$defs', obj({q: {$ref: '#/$defs/Query'}}, ['q'], {$defs: {Query: obj({text: {...str, default: null}, limit: {...int, default: 20}})}}), {q: {text: 'x', limit: 5}}, 0],
  ['definitions of draft-07', {...obj({q: {$ref: '#/definitions/q'}}, ['q']), $schema: draft7, definitions: {q: {type: 'string', enum: ['fit', 'raw']}}}, {q: 'raw'}, 0],
  ['a reference with a note', obj({q: {$ref: '#/$defs/E', description: 'which', default: 'a'}}, ['q'], {$defs: {E: {enum: ['a', 'b']}}}), {q: 'b'}, 0],
  ['what draft-07 does not read beside', {...obj({q: {$ref: '#/definitions/q', pattern: 'o'}}, ['q']), $schema: draft7, definitions: {q: {type: 'string', pattern: 'l'}}}, {q: 'long'}, 0],
  ['what 2020-12 reads beside', {...obj({q: {$ref: '#/$defs/q', maxLength: 4}}, ['q']), $schema: draft2020, $defs: {q: {type: 'string', minLength: 2}}}, {q: 'abc'}, 0],
  ['references to a place', obj({from: obj({id: str}, ['id']), to: {$ref: '#/properties/from'}}, ['from', 'to']), {from: {id: 'a'}, to: {id: 'b'}}, 0],
  ['references with signs', obj({a: {$ref: '#/$defs/a~1b%20c~0d'}}, ['a'], {$defs: {'a/b c~d': int}}), {a: 3}, 0],
  ['one that goes round', obj({node: {$ref: '#/$defs/node'}}, ['node'], {$defs: {node: obj({name: str, next: {$ref: '#/$defs/node'}}, ['name'])}}), {node: {name: 'a', next: {name: 'b', next: {name: 'c'}}}}, 1],
  ['the root in itself', {type: 'object', properties: {name: str, kids: list({$ref: '#'})}, required: ['name']}, {name: 'a', kids: [{name: 'b'}]}, 1],
  ['an anchor', obj({a: {$ref: '#there'}}, ['a'], {$defs: {x: {$anchor: 'there', type: 'integer'}}}), {a: 4}, 1],
  // Composition.
  ['allOf', obj({a: {allOf: [{type: 'string'}, {minLength: 2}]}}, ['a']), {a: 'xy'}, 0],
  ['allOf of objects', obj({a: {allOf: [{$ref: '#/$defs/base'}, obj({extra: bool}, ['extra'])]}}, ['a'], {$defs: {base: obj({id: int}, ['id'])}}), {a: {id: 1, extra: true}}, 0],
  ['allOf that is closed', obj({a: {allOf: [{type: 'object', properties: {x: int}, required: ['x']}, {properties: {x: int}, additionalProperties: false}]}}, ['a']), {a: {x: 1}}, 1],
  ['allOf that cannot be one', obj({a: {allOf: [{pattern: '^a'}, {pattern: 'z$'}], type: 'string'}}, ['a']), {a: 'abz'}, 1],
  ['a union by a member', obj({target: {oneOf: [obj({type: {const: 'page'}, page_id: str}, ['type', 'page_id']), obj({type: {const: 'database'}, database_id: str, rows: int}, ['type', 'database_id'])], discriminator: {propertyName: 'type'}}}, ['target']), {target: {type: 'database', database_id: 'd', rows: 3}}, 0],
  ['a union of everything', obj({v: {anyOf: [str, num, bool, list(str), {type: 'object', additionalProperties: true}, {type: 'null'}]}}, ['v']), {v: ['a']}, 0],
  ['anyOf at the root', {type: 'object', properties: {id: int, name: str}, anyOf: [{required: ['id']}, {required: ['name']}]}, {name: 'x'}, 0],
  ['oneOf at the root with members of its own', {type: 'object', oneOf: [obj({a: int}, ['a']), obj({b: int}, ['b'])]}, {b: 1}, 0],
  ['not', obj({a: str, b: str}, [], {not: {required: ['a', 'b']}}), {a: 'x'}, 0],
  ['not a text', obj({a: {not: {type: 'string'}}}, ['a']), {a: 5}, 1],
  ['if and then', obj({kind: {enum: ['a', 'b']}, n: int}, ['kind'], {if: {properties: {kind: {const: 'a'}}}, then: {required: ['n']}}), {kind: 'a', n: 2}, 0],
  ['dependentRequired', obj({card: str, address: str}, [], {dependentRequired: {card: ['address']}}), {card: '1', address: 'x'}, 0],
  ['unevaluatedProperties', {...obj({a: {allOf: [obj({x: int})], unevaluatedProperties: false}}, ['a']), $schema: draft2020}, {a: {x: 1}}, 1],
  // Keywords that are none.
  ['what generators add', obj({a: {type: 'string', 'x-order': 1, markdownDescription: '**a**', enumNames: ['x'], errorMessage: 'no'}}, ['a'], {'x-tool': true}), {a: 'x'}, 0],
];
