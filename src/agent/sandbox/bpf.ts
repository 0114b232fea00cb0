import type { Processor, SystemCall } from './syscalls.ts';

/*
 * Writes the programs that the kernel runs on every system call of a process (seccomp, in the classic
 * packet filter's machine code). A rule names a call, what its arguments must be, and the error that the
 * caller gets instead. Arguments are compared by their low half: processes, flags and options are 32 bits.
 */

/** The caller is told that it was done. */
export const NONE = 0;
export const EPERM = 1;
export const ENOSYS = 38;
export const EAFNOSUPPORT = 97;

export interface ArgumentTest {
  argument: 0 | 1 | 2 | 3;
  /** The upper half of a pointer. */
  high?: true;
  /** Bits that are looked at; all when absent. */
  mask?: number;
  /** It is one of these … */
  in?: readonly number[];
  /** … or it is none of these. */
  notIn?: readonly number[];
}

export interface Rule {
  calls: readonly SystemCall[];
  /** All of them must hold; none: always. */
  when?: readonly ArgumentTest[];
  error: number;
}

const LOAD = 0x20;
const AND = 0x54;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const RETURN = 0x06;

const ALLOW = 0x7fff0000;
const ERROR = 0x00050000;

/** Of what the kernel hands to a filter. */
const CALL_AT = 0;
const PROCESSOR_AT = 4;
const argumentAt = (test: ArgumentTest): number => 16 + 8 * test.argument + (test.high ? 4 : 0);

/** Instruction: code, jumps when true and when false, value. */
type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

const refuse = (error: number): Instruction => [RETURN, 0, 0, ERROR | error];
const allow: Instruction = [RETURN, 0, 0, ALLOW];

/** The machine code for these rules; what no rule refuses is allowed. */
export function assemble(processor: Processor, rules: readonly Rule[]): Buffer {
  const program: Instruction[] = [
    [LOAD, 0, 0, PROCESSOR_AT],
    [JUMP_EQUAL, 1, 0, processor.audit],
    refuse(ENOSYS),
    [LOAD, 0, 0, CALL_AT],
  ];
  if (processor.foreignFrom !== null) {
    program.push([JUMP_AT_LEAST, 0, 1, processor.foreignFrom], refuse(ENOSYS));
  }
  for (const [call, ofCall] of byCall(rules)) {
    const number = processor.calls[call];
    if (number === undefined) continue;
    const body = [...ofCall.flatMap(ruleCode), allow];
    program.push([JUMP_EQUAL, 0, body.length, number], ...body);
  }
  program.push(allow);
  return machineCode(program);
}

function byCall(rules: readonly Rule[]): Map<SystemCall, Rule[]> {
  const found = new Map<SystemCall, Rule[]>();
  for (const rule of rules) {
    for (const call of rule.calls) found.set(call, [...(found.get(call) ?? []), rule]);
  }
  return found;
}

/** The tests from the last to the first, so that each knows how far it is to the end of the rule. */
function ruleCode({ when = [], error }: Rule): Instruction[] {
  return when.reduceRight<Instruction[]>(
    (rest, test) => [...testCode(test, rest.length), ...rest],
    [refuse(error)],
  );
}

/** Goes on behind itself when the test holds, and skips `rest` instructions more when it does not. */
function testCode(test: ArgumentTest, rest: number): Instruction[] {
  const values = test.in ?? test.notIn ?? [];
  const code: Instruction[] = [[LOAD, 0, 0, argumentAt(test)]];
  if (test.mask !== undefined) code.push([AND, 0, 0, test.mask]);
  values.forEach((value, index) => {
    const behind = values.length - 1 - index;
    const isLast = behind === 0;
    const [equal, other] = test.in ? [behind, isLast ? rest : 0] : [behind + rest, 0];
    code.push([JUMP_EQUAL, equal, other, value >>> 0]);
  });
  return code;
}

function machineCode(program: readonly Instruction[]): Buffer {
  const code = Buffer.alloc(program.length * 8);
  program.forEach(([operation, ifTrue, ifFalse, value], index) => {
    code.writeUInt16LE(operation, index * 8);
    // Throws for a jump of more than 255 instructions, which the machine cannot make.
    code.writeUInt8(ifTrue, index * 8 + 2);
    code.writeUInt8(ifFalse, index * 8 + 3);
    code.writeUInt32LE(value >>> 0, index * 8 + 4);
  });
  return code;
}
