// readLines of Deno's old standard library, which dspy's runner imports from deno.land: see peers.py.
export async function* readLines(source) {
  let rest = [];
  const decoder = new TextDecoder();
  for await (const chunk of source.readable) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    while (pieces.length > 1) {
      rest.push(pieces.shift());
      yield rest.join("");
      rest = [];
    }
    rest.push(pieces[0]);
  }
  if (rest.some((piece) => piece)) yield rest.join("");
}
