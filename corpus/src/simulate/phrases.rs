//! Templates by dialogue act. `{name}`, `{address}`, `{phone}`, `{order}`, `{tracking}` are
//! secrets; `{goods}`, `{whom}`, `{when}`, `{place}` and `{plan}` are not. Most phrases without a
//! secret come from a small set, so that such turns repeat across dialogues as they do in real
//! logs; the customer's story is one of thousands, as free text is.

/// The first line.
pub(super) const GREETING: [&str; 5] = [
    "Good day, you have reached the help desk. What brings you here?",
    "Welcome to customer care. How may I help you today?",
    "Thank you for contacting the shop. What can we do for you?",
    "This is the online service desk. Please tell me what happened.",
    "Hello and welcome. What would you like to sort out today?",
];

/// The customer's reason for writing; the answer depends on it.
pub(super) const LATE: [&str; 4] = [
    "Hello, my {goods} should have been here by now. Do you know where it is?",
    "I am still waiting for a {goods} that I bought from you last month.",
    "The page says my {goods} is on its way, but nothing has moved for days.",
    "Good morning. When will the {goods} I ordered get to me?",
];
pub(super) const DAMAGED: [&str; 4] = [
    "Hi, the {goods} you sent me arrived broken. I would like a new one.",
    "There is a large scratch on my new {goods}. Can you replace it?",
    "I opened the box and the {goods} does not work at all.",
    "Unfortunately the {goods} came with a part missing.",
];
pub(super) const CANCEL: [&str; 4] = [
    "Hello, I would like to cancel my order for a {goods}.",
    "I ordered the same {goods} twice by mistake. Please take one back.",
    "Can I still stop the order for the {goods}? I have changed my mind.",
    "Please cancel the {goods}, I found one closer to home.",
];
pub(super) const MOVED: [&str; 4] = [
    "Hi, I have moved house and my {goods} would go to the old place.",
    "I need to change where my {goods} is delivered.",
    "Could you send the {goods} to another address? I gave the wrong one.",
    "Before you ship the {goods}, please update my address.",
];

/// The customer's story: free text without a secret.
pub(super) const STORY: [&str; 8] = [
    "I bought the {goods} for {whom}, and we needed it {when}.",
    "It was meant for {whom}, who wanted to {plan} {when}.",
    "The {goods} should stand in {place}, so that {whom} can {plan}.",
    "We tried to {plan} {when}, but without the {goods} it is hopeless.",
    "My plan was to put it in {place} {when} and then {plan}.",
    "Without it {whom} cannot {plan}, and {place} is still empty.",
    "Last time the {goods} for {whom} came {when}, and all was well.",
    "I was in {place} {when} when {whom} asked me about the {goods}.",
];
/// Fillings of a story.
pub(super) const WHOM: [&str; 12] = [
    "my sister",
    "my father",
    "our neighbour",
    "a good friend",
    "my wife",
    "my husband",
    "the whole family",
    "our youngest",
    "a colleague",
    "my grandmother",
    "the new flatmate",
    "our choir",
];
pub(super) const WHEN: [&str; 12] = [
    "this morning",
    "last night",
    "before the weekend",
    "at the end of the month",
    "right after work",
    "in the summer",
    "before the guests arrive",
    "during the holidays",
    "early in the week",
    "just after lunch",
    "for the birthday",
    "by the end of the day",
];
pub(super) const PLACE: [&str; 10] = [
    "the kitchen",
    "the garden",
    "the spare room",
    "the hall",
    "the cellar",
    "the office",
    "the holiday flat",
    "the garage",
    "the workshop",
    "the living room",
];
pub(super) const PLAN: [&str; 10] = [
    "cook for everyone",
    "paint the walls",
    "work from home",
    "fix the roof",
    "read in peace",
    "leave for the coast",
    "set up the party",
    "clean the windows",
    "practise a little",
    "move the old furniture",
];
/// Answers to the story.
pub(super) const STORY_HEARD: [&str; 5] = [
    "I see, that is a pity. I will do what I can.",
    "Thank you for telling me. We will find a way.",
    "I understand, and I am sorry for the trouble.",
    "That sounds lovely. Let me see what can be done.",
    "Thanks for the details, they help.",
];

/// Asks for the name.
pub(super) const ASK_NAME: [&str; 5] = [
    "I am sorry to hear that. Who am I talking to, please?",
    "Let me check that for you. What is your full name?",
    "I can look into it right away. Under which name did you order?",
    "No problem at all. Could you tell me your first and last name?",
    "Of course. To find your account I need your full name first.",
];
pub(super) const GIVE_NAME: [&str; 8] = [
    "My name is {name}.",
    "{name}.",
    "This is {name}.",
    "I'm {name}, thanks for the quick answer.",
    "Sure, {name}.",
    "It should be under {name}.",
    "{name}",
    "The name's {name}.",
];

/// Asks for something else that identifies the customer.
pub(super) const ASK_PHONE: [&str; 4] = [
    "Thank you, {name}. Which telephone number is on the account?",
    "Thanks. And the phone number you registered with us?",
    "Got it. Please confirm the phone number as well.",
    "I see two accounts here. What is your phone number?",
];
pub(super) const GIVE_PHONE: [&str; 5] = [
    "It is {phone}.",
    "{phone}",
    "The number is {phone}, that is my mobile.",
    "That would be {phone}.",
    "Please note {phone}, and call after lunch if you can.",
];
pub(super) const ASK_ORDER: [&str; 4] = [
    "Thank you, {name}. Do you have the order number at hand?",
    "Thanks. What does the order number in the confirmation say?",
    "Got it. I also need the number of your order.",
    "I found several orders. Which number does yours have?",
];
pub(super) const GIVE_ORDER: [&str; 5] = [
    "The order number is {order}.",
    "{order}",
    "Here it is: {order}.",
    "It says {order} at the top of the mail.",
    "One second. I have {order} here.",
];
pub(super) const ASK_ADDRESS: [&str; 4] = [
    "Thank you, {name}. Where was it supposed to be delivered?",
    "Thanks. Please give me the delivery address on the order.",
    "Got it. What address did you enter when you ordered?",
    "For safety, please confirm the address of the order.",
];
pub(super) const GIVE_ADDRESS: [&str; 5] = [
    "We live at {address}.",
    "{address}.",
    "It goes to {address}.",
    "My address is {address}, the bell is on the left.",
    "Please deliver to {address}.",
];

/// Looks things up.
pub(super) const WAIT: [&str; 4] = [
    "One moment please, I am opening your file.",
    "Thank you. Please stay with me while I look that up.",
    "That helps. Give me a few seconds to find the order.",
    "All right, I am checking with the warehouse now.",
];
pub(super) const PATIENCE: [&str; 5] = [
    "Sure, take your time.",
    "No rush, I can wait.",
    "All right.",
    "Thanks for checking.",
    "I appreciate the help.",
];

/// Answers.
pub(super) const ANSWER_LATE: [&str; 4] = [
    "The parcel left our warehouse two days ago. You can follow it with {tracking}.",
    "It is with the carrier. The tracking code is {tracking}, and it should arrive this week.",
    "I can see a delay at the depot. Please use {tracking} to follow the parcel.",
    "Good news, it is out for delivery. The code to follow it is {tracking}.",
];
pub(super) const ANSWER_DAMAGED: [&str; 4] = [
    "I am sorry about that. A new one goes out today with the tracking code {tracking}.",
    "We will replace it at no cost. The new parcel has the number {tracking}.",
    "A courier brings the new one and takes the old one back. The code is {tracking}.",
    "I have booked a replacement for you. Please follow it with {tracking}.",
];
pub(super) const ANSWER_CANCEL: [&str; 4] = [
    "I have cancelled order {order}. The money is back on your card within a week.",
    "Order {order} is stopped now, and nothing will be charged.",
    "It had left already. Please refuse the parcel {tracking} and we refund it.",
    "That is done. You will get a mail that confirms the end of order {order}.",
];
pub(super) const ASK_NEW_ADDRESS: [&str; 3] = [
    "It has not left yet, so I can change that. What is the new address?",
    "We are in time for that. Where should it go instead?",
    "Gladly. Please type the full new address.",
];
pub(super) const ANSWER_MOVED: [&str; 3] = [
    "Done. It will be sent to {address} under the code {tracking}.",
    "I have changed it to {address}. The parcel number is {tracking}.",
    "Thank you. The label now says {address}, and the tracking code is {tracking}.",
];

/// Questions without secrets, each with its answers.
pub(super) const QUESTIONS: [(&str, [&str; 2]); 10] = [
    (
        "How long does shipping usually take?",
        [
            "Most parcels arrive within three to five working days.",
            "It usually takes less than a week, sometimes a little longer.",
        ],
    ),
    (
        "Can I pick it up at a shop instead?",
        [
            "Yes, any of our shops can hold it for ten days.",
            "You can. Choose the nearest shop in the link we will send you.",
        ],
    ),
    (
        "Do I have to be at home when it comes?",
        [
            "No, the driver leaves it with a neighbour if nobody opens.",
            "Not necessarily, it fits into most letter boxes.",
        ],
    ),
    (
        "What if it does not fit or I do not like it?",
        [
            "Then send it back within thirty days, and the return is free.",
            "You have a month to return it, even without the box.",
        ],
    ),
    (
        "Will I get a message before it is delivered?",
        [
            "Yes, you get a short message on the morning of the delivery.",
            "The driver will write to you about an hour before.",
        ],
    ),
    (
        "Is there a way to get it faster?",
        [
            "Express delivery is possible for a small fee at the checkout.",
            "I am afraid not for this item, it is sent from far away.",
        ],
    ),
    (
        "Could you tell me if the other colours are back in stock?",
        [
            "The green one is back, and the others should come next week.",
            "At the moment we only have black and white.",
        ],
    ),
    (
        "Does the guarantee cover normal use?",
        [
            "It does. The guarantee runs for two years from the purchase.",
            "Yes, only broken glass is not part of it.",
        ],
    ),
    (
        "Do you also sell spare parts for it?",
        [
            "We keep spare parts for every model we sell.",
            "Some of them. Please have a look under service on our page.",
        ],
    ),
    (
        "Can I pay with a gift card next time?",
        [
            "Gift cards work for everything in the shop.",
            "Yes, enter the code of the card at the checkout.",
        ],
    ),
];

/// Asks to be called back.
pub(super) const CALL_BACK: [&str; 4] = [
    "Could somebody call me when it leaves? My number is {phone}.",
    "Please call me if anything goes wrong, at {phone}.",
    "If there is a problem, try {phone} first.",
    "I would rather have a call. You can use {phone}.",
];
pub(super) const CALL_NOTED: [&str; 3] = [
    "I have noted that down for the driver.",
    "Sure, a colleague will call you.",
    "That is in your file now.",
];

/// The end.
pub(super) const MORE: [&str; 4] = [
    "Is there anything else you would like to know?",
    "Can I do anything else for you?",
    "Does that answer everything for today?",
    "What else may I help you with?",
];
pub(super) const ENOUGH: [&str; 6] = [
    "No, that was all. Thank you very much.",
    "That is everything, thanks a lot.",
    "All clear now. Thanks for your time.",
    "Nothing more, you have been a great help.",
    "No thanks, I am fine.",
    "That was it. Have a good evening.",
];
pub(super) const FAREWELL: [&str; 5] = [
    "You are welcome. Have a pleasant day.",
    "Thank you for your patience, and goodbye.",
    "Glad I could help. See you next time.",
    "Take care, and enjoy your day.",
    "Thank you, {name}. Goodbye.",
];
