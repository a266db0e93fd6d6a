// The formulas of the pages: codes, angles, biases and scalings of frequencies. Tests compare all of them with
// locant.positions. Positions are whole numbers; widths and head sizes are even.

export const range = (count, of = (index) => index) => Array.from({ length: count }, (_, index) => of(index));

// theta_i = base^(-2i/d) of every pair of features. Vaswani et al. 2017, section 3.5; Su et al. 2021, section 3.4.
export const frequencies = (width, base) => range(width / 2, (pair) => base ** ((-2 * pair) / width));

// The code of a position: sine and cosine of each pair beside each other. Vaswani et al. 2017, section 3.5.
export const sinusoids = (position, width, base) =>
  frequencies(width, base).flatMap((frequency) => [Math.sin(position * frequency), Math.cos(position * frequency)]);

// The score of an equal query and key so many tokens apart, as a share of the score at distance 0.
export const rotaryScore = (distance, width, base) =>
  frequencies(width, base).reduce((sum, frequency) => sum + Math.cos(distance * frequency), 0) / (width / 2);

// Press et al. 2022, section 3: the slope of every head, for a power of two of heads.
export const alibiSlopes = (heads) => range(heads, (head) => 2 ** ((-8 * (head + 1)) / heads));

// Chi et al. 2023 ("Dissecting"), section 4: dot products of sinusoids of width 128 that are not the model's own.
export const sandwich = (distance, head, heads) =>
  frequencies(128, 10000).reduce((sum, frequency) => sum + Math.cos(distance * frequency), 0) / ((8 * (head + 1)) / heads);

// Raffel et al. 2020: the bucket of a distance backwards, 32 buckets up to distance 128; one trained bias each.
export function t5Bucket(distance) {
  if (distance < 16) return distance;
  return Math.min(31, 16 + Math.floor((16 * Math.log(distance / 16)) / Math.log(128 / 16) + 1e-12));
}

// What a position scheme adds to the score of a key so many tokens before the query, by head; only of formulas.
export const BIASES = {
  alibi: (distance, head, heads) => -alibiSlopes(heads)[head] * distance,
  sandwich,
};

const withBase = (width, base, scale) => frequencies(width, base * scale ** (width / (width - 2)));

// Pairs from the one that makes `fast` turns in the trained length to the one that makes `slow` are blended.
function byParts(width, base, trained, factor) {
  const index = (turns) => (width * Math.log(trained / (2 * Math.PI * turns))) / (2 * Math.log(base));
  const low = Math.max(Math.floor(index(32)), 0);
  let high = Math.min(Math.ceil(index(1)), width - 1);
  if (low === high) high += 0.001;
  return frequencies(width, base).map((frequency, pair) => {
    const slowed = Math.min(Math.max((pair - low) / (high - low), 0), 1);
    return frequency * (1 - slowed + slowed / factor);
  });
}

function llama3(width, base, trained, factor) {
  return frequencies(width, base).map((frequency) => {
    const turns = (trained * frequency) / (2 * Math.PI);
    const kept = Math.min(Math.max((turns - 1) / (4 - 1), 0), 1);
    return frequency * (kept + (1 - kept) / factor);
  });
}

// Frequencies of a rotary model that was trained for `trained` tokens and reads `wanted`; factor is their ratio.
export const SCALINGS = {
  none: { title: "unchanged", of: (width, base) => frequencies(width, base) },
  linear: {
    title: "PI", paper: "Chen et al. 2023",
    of: (width, base, trained, wanted) => frequencies(width, base).map((frequency) => (frequency * trained) / wanted),
  },
  ntk: {
    title: "NTK-aware", paper: "bloc97 2023",
    of: (width, base, trained, wanted) => withBase(width, base, wanted / trained),
  },
  yarn: {
    title: "YaRN", paper: "Peng et al. 2023",
    of: (width, base, trained, wanted) => byParts(width, base, trained, wanted / trained),
  },
  llama3: {
    title: "Llama 3", paper: "Grattafiori et al. 2024",
    of: (width, base, trained, wanted) => llama3(width, base, trained, wanted / trained),
  },
};

// The first position at which a pair turns farther than in training; null where there is none below `wanted`. Training
// on L tokens showed a pair the angles below L times its frequency; all of them where that is a full turn.
export function firstUnseen(name, width, base, trained, wanted) {
  const before = frequencies(width, base);
  const after = SCALINGS[name].of(width, base, trained, wanted);
  const incomplete = range(width / 2).filter((pair) => (2 * Math.PI) / before[pair] > trained);
  const first = Math.min(wanted, ...incomplete.map((pair) => Math.ceil((trained * before[pair]) / after[pair] - 1e-6)));
  return first < wanted ? first : null;
}
